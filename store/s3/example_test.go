package s3_test

import (
	"context"
	"fmt"
	"log"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent"
	"github.com/regentd/regent/store/s3"
)

// It needs credentials for the bucket, in AWS_PROFILE for example.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())

	store, err := s3.Open(ctx, "s3://bucket/prefix?region=eu-central-1", s3.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	m := &regent.Member{Store: store, ID: "a", Config: regent.Fleet()}
	err = m.Lead(ctx, "coordinator", func(ctx context.Context, t regent.Term) error {
		fmt.Println("leading, epoch", t.Epoch)
		cancel() // only so that this example ends
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
}

// An object that a leader writes is refused once a newer leader has written it.
func ExampleFence() {
	lead := func(ctx context.Context, client *awss3.Client, term regent.Term, bucket, key string) error {
		_, err := s3.Fence(ctx, client, term, &awss3.PutObjectInput{Bucket: &bucket, Key: &key},
			func(stamp s3.Stamp) []byte { return fmt.Appendf(nil, `{"stamp":%q,"rows":[]}`, stamp) })
		return err
	}
	_ = lead
}
