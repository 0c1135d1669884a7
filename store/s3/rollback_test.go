package s3

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent"
)

// archive restores objects of a store to what they were, as an operator does with an older version of an object.
type archive struct {
	t     *testing.T
	store *Store
	c     *s3.Client
}

func newArchive(t *testing.T, s *Store) *archive {
	return &archive{t, s, client(shared.endpoint())}
}

// version returns an object as it is now.
func (a *archive) version(name string) object {
	a.t.Helper()
	o, err := a.store.get(context.Background(), a.store.addr.key(name), "")
	if err != nil {
		a.t.Fatal(err)
	}
	return o
}

// restore makes an object what it was.
func (a *archive) restore(name string, o object) {
	a.t.Helper()
	_, err := a.c.PutObject(context.Background(), &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String(a.store.addr.key(name)), Body: bytes.NewReader(o.body)})
	if err != nil {
		a.t.Fatal(err)
	}
	if now := a.version(name); now.etag != o.etag {
		a.t.Fatalf("the restored object has the ETag %s, and had %s", now.etag, o.etag)
	}
}

func (a *archive) delete(name string) {
	a.t.Helper()
	deleteObject(a.t, a.store.addr.key(name))
}

// Members that remember more than the store shows say so, wait, and lead beyond every epoch that they have seen.
func TestMembersWhenTheStoreGoesBack(t *testing.T) {
	for name, lose := range map[string]func(a *archive, old object){
		"an_object_is_restored_to_an_earlier_version": func(a *archive, old object) { a.restore(election, old) },
		"an_object_is_deleted":                        func(a *archive, _ object) { a.delete(election) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, fresh(shared.endpoint()))
			archive := newArchive(t, s)
			c := newCrowd(t)
			a, _ := c.join("a", s)
			c.leads(a, 0)
			old := archive.version(election)
			b, _ := c.join("b", open(t, s.addr.text))
			epoch := uint64(0)
			for range 3 {
				epoch = c.somebodyLeads(epoch)
				leader := a
				if _, ok := b.Leads(election); ok {
					leader = b
				}
				if err := leader.StepDown(t.Context(), election); err != nil {
					t.Fatal(err)
				}
			}
			epoch = c.somebodyLeads(epoch)

			for again := range 2 { // gone back, and gone back once more
				// Who has not seen an epoch cannot go beyond it.
				c.until("the other has seen that epoch", func() bool { return c.seen(epoch) })
				before := c.happened(regent.EventStoreRegressed)
				lose(archive, old)
				c.until("somebody says that the store has lost writes", func() bool {
					return c.happened(regent.EventStoreRegressed) > before
				})
				next := c.somebodyLeads(epoch)
				if next <= epoch {
					t.Errorf("time %d: epoch %d after %d", again, next, epoch)
				}
				epoch = next
			}
		})
	}
}

// A record is plain JSON, as docs/STORES.md says.
func TestARecordIsPlainJSON(t *testing.T) {
	s := open(t, fresh(shared.endpoint()))
	swap(t, s, held(election, "node-a", 7))
	body := string(newArchive(t, s).version(election).body)
	for _, part := range []string{`{"write":"`, `"epoch":7`, `"holder":"node-a"`, `"nonce":"`} {
		if !strings.Contains(body, part) {
			t.Errorf("the object is %s, want %s in it", body, part)
		}
	}
}
