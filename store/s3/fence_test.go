package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent"
)

// desk is an object that leaders write through a fence.
type desk struct {
	t      *testing.T
	client *s3.Client
	key    string
}

func newDesk(t *testing.T, endpoint string) *desk {
	return &desk{t: t, client: client(endpoint), key: fmt.Sprintf("desk-%d", prefixes.Add(1))}
}

func (d *desk) put() *s3.PutObjectInput {
	return &s3.PutObjectInput{
		Bucket: aws.String(bucket), Key: aws.String(d.key), Metadata: map[string]string{"owner": "tests"},
	}
}

// write writes a text as the leader of a term.
func (d *desk) write(ctx context.Context, epoch uint64, term, text string) error {
	_, err := Fence(ctx, d.client, regent.Term{Election: "reports", Epoch: epoch, Incarnation: term}, d.put(),
		func(s Stamp) []byte { return fmt.Appendf(nil, "%s\n%s", s, text) })
	return err
}

// text returns what the object says.
func (d *desk) text() string {
	d.t.Helper()
	in := &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(d.key)}
	out, err := d.client.GetObject(d.t.Context(), in)
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Body.Close()
	body, _ := io.ReadAll(out.Body)
	_, text, _ := strings.Cut(string(body), "\n")
	return text
}

func (d *desk) stale(err error, want regent.StaleError) {
	d.t.Helper()
	var got *regent.StaleError
	if !errors.As(err, &got) || *got != want {
		d.t.Errorf("got %v, want %v", err, &want)
	}
}

func TestFence(t *testing.T) {
	d := newDesk(t, shared.endpoint())
	ctx := t.Context()
	for _, epoch := range []uint64{9, 9, 10} { // 10 is more than 9, though not as text
		if err := d.write(ctx, epoch, "x", fmt.Sprint("by ", epoch)); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("an_older_epoch_writes_nothing", func(t *testing.T) {
		d.stale(d.write(ctx, 9, "x", "old"), regent.StaleError{Epoch: 9, Term: "x", Newest: 10, NewestTerm: "x"})
		if got := d.text(); got != "by 10" {
			t.Errorf("the object says %q", got)
		}
	})
	t.Run("another_term_with_the_same_epoch_writes_nothing", func(t *testing.T) {
		d.stale(d.write(ctx, 10, "y", "other"), regent.StaleError{Epoch: 10, Term: "y", Newest: 10, NewestTerm: "x"})
		if got := d.text(); got != "by 10" {
			t.Errorf("the object says %q", got)
		}
	})
	t.Run("what_no_term_can_have_is_refused", func(t *testing.T) {
		for _, epoch := range []uint64{0, 1 << 62, math.MaxUint64} {
			if err := d.write(ctx, epoch, "x", ""); !errors.Is(err, regent.ErrInvalidToken) {
				t.Errorf("epoch %d: %v", epoch, err)
			}
		}
	})
	t.Run("another_election_is_refused", func(t *testing.T) {
		term := regent.Term{Election: "other", Epoch: 11, Incarnation: "x"}
		_, err := Fence(ctx, d.client, term, d.put(), func(s Stamp) []byte { return []byte(s.String()) })
		if err == nil || !strings.Contains(err.Error(), `"reports"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a_body_without_its_stamp_is_refused", func(t *testing.T) {
		term := regent.Term{Election: "reports", Epoch: 11, Incarnation: "x"}
		_, err := Fence(ctx, d.client, term, d.put(), func(Stamp) []byte { return []byte("{}") })
		if !errors.Is(err, ErrNoStamp) || d.text() != "by 10" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the_metadata_of_the_user_is_kept", func(t *testing.T) {
		out, err := d.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: aws.String(d.key)})
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Metadata; got["owner"] != "tests" || got["regent-fence"] != "election=reports&epoch=10&term=x" {
			t.Errorf("metadata is %v", got)
		}
	})
	t.Run("an_object_that_was_there_before_is_replaced", func(t *testing.T) {
		d := newDesk(t, shared.endpoint())
		in := d.put()
		in.Body = bytes.NewReader(nil)
		if _, err := d.client.PutObject(ctx, in); err != nil {
			t.Fatal(err)
		}
		if err := d.write(ctx, 1, "x", "first"); err != nil || d.text() != "first" {
			t.Errorf("the first fenced write: %v", err)
		}
	})
}

// A deposed leader whose write is under way when its successor writes is refused, even if both write the same text and
// the write comes only after the successor has written the old text again.
func TestFenceAgainstADeposedLeader(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	old, ctx := newDesk(t, p.URL), t.Context()
	now := &desk{t: t, client: client(shared.endpoint()), key: old.key}
	if err := now.write(ctx, 4, "a", "text"); err != nil {
		t.Fatal(err)
	}

	p.set(puts(hold)) // the deposed leader has looked, and its write is on its way
	if err := old.write(ctx, 5, "b", "text of the deposed"); err == nil {
		t.Fatal("the write was not held")
	}
	for _, text := range []string{"new text", "text"} {
		if err := now.write(ctx, 6, "c", text); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.deliver(ctx); len(got) != 1 || got[0] != 412 {
		t.Errorf("the late write was answered with %d, want 412", got)
	}
	if got := now.text(); got != "text" {
		t.Errorf("the object says %q after a late write of a deposed leader", got)
	}

	p.set(nil)
	old.stale(old.write(ctx, 5, "b", "again"), regent.StaleError{Epoch: 5, Term: "b", Newest: 6, NewestTerm: "c"})
}

// Writers of one term come before each other, and each write is made in the end. An object that is deleted meanwhile is
// not created again.
func TestFenceBesideOtherWriters(t *testing.T) {
	p := startProxy(t, shared.endpoint())
	slowly, ctx := newDesk(t, p.URL), t.Context()
	other := &desk{t: t, client: client(shared.endpoint()), key: slowly.key}
	if err := other.write(ctx, 1, "a", "first"); err != nil {
		t.Fatal(err)
	}

	between := 0
	meanwhile := func(f func()) fault {
		return func(p *proxy, w http.ResponseWriter, r *http.Request, body []byte) {
			if between++; between <= 2 {
				f()
			}
			pass(p, w, r, body)
		}
	}
	p.set(puts(meanwhile(func() {
		if err := other.write(ctx, 1, "a", "between"); err != nil {
			t.Error(err)
		}
	})))
	if err := slowly.write(ctx, 1, "a", "last"); err != nil || between != 3 {
		t.Errorf("a write that two came before: %v, after %d tries", err, between)
	}
	if got := other.text(); got != "last" {
		t.Errorf("the object says %q", got)
	}

	between = 0
	p.set(puts(meanwhile(func() {
		deleteObject(t, other.key)
	})))
	if err := slowly.write(ctx, 1, "a", "again"); !errors.Is(err, ErrFenceLost) {
		t.Errorf("a write to an object that was deleted meanwhile: %v, want ErrFenceLost", err)
	}
}
