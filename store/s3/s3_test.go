package s3

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/storetest"
)

// suite runs the conformance suite at an endpoint, below an empty prefix for every test.
func suite(t *testing.T, endpoint string) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		addr := fresh(endpoint)
		return func() (driver.Store, error) {
			// race_test.go is about the race.
			return Open(t.Context(), addr, Options{Credentials: credentials(), NoProbe: true})
		}
	})
}

func TestStore(t *testing.T) { suite(t, shared.endpoint()) }

func TestStoreBehindASlowProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite once more")
	}
	p := startProxy(t, shared.endpoint())
	p.all(slow(time.Millisecond))
	suite(t, p.URL)
}

// An object that somebody has written over is an error of its register alone.
func TestUnreadableRegisters(t *testing.T) {
	storetest.RunUnreadable(t, func(t *testing.T) (storetest.Open, func(name string) error) {
		addr := fresh(shared.endpoint())
		a, err := parseAddress(addr)
		if err != nil {
			t.Fatal(err)
		}
		spoil := func(name string) error {
			_, err := client(shared.endpoint()).PutObject(context.Background(), &s3.PutObjectInput{
				Bucket: aws.String(bucket), Key: aws.String(a.key(name)), Body: bytes.NewReader([]byte("no JSON"))})
			return err
		}
		return func() (driver.Store, error) {
			return Open(t.Context(), addr, Options{Credentials: credentials(), NoProbe: true})
		}, spoil
	})
}
