package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

// Stamp tells one write from every other. Its text must stand somewhere in the object that [Fence] writes.
type Stamp struct {
	Epoch  uint64
	random [2]uint64
}

// String returns the stamp as the object must contain it: one word of small letters, digits and dashes.
func (s Stamp) String() string {
	return fmt.Sprintf("regent-%d-%016x%016x", s.Epoch, s.random[0], s.random[1])
}

const (
	// fenceMark is the key of the object's metadata that has the newest term, as election=NAME&epoch=NUMBER&term=NAME.
	fenceMark = "regent-fence"
	// fenceTries is how often a write is tried that others of the same term come before.
	fenceTries = 10
)

var (
	// ErrNoStamp says that the body of a fenced object lacks its stamp.
	ErrNoStamp = errors.New("the body does not contain its stamp")
	// ErrFenceLost says that a fenced object was deleted between its read and its write, and the mark of its fence with
	// it.
	ErrFenceLost = errors.New("the object was deleted, and its fence with it")
)

// Fence writes an object of yours, in any bucket, unless a newer term has written it: an older epoch, and another term
// with the same epoch, is refused with a [regent.StaleError]. Nothing was written then.
//
//	_, err := s3.Fence(ctx, client, term, &awss3.PutObjectInput{Bucket: &bucket, Key: &key}, func(s s3.Stamp) []byte {
//		return fmt.Appendf(nil, `{"stamp":%q,"jobs":[]}`, s)
//	})
//
// The newest epoch and its term are kept in the object's metadata, as regent-fence. Fence reads them, and writes on the
// condition that the object is still the one that was read. S3 compares objects by their content alone: so that no two
// writes are equal, the body must contain the stamp, or Fence returns [ErrNoStamp] and writes nothing. Body may be
// called several times.
//
// Each object has a fence of its own: a deposed leader can write an object that no newer term has written yet. So a new
// leader writes every object that it is responsible for before it relies on them. Nobody may write such an object
// without Fence, or delete it. An error that is none of those named here says nothing about whether the object was
// written: call Fence again. The client should not send requests again by itself (aws.NopRetryer): a write that was
// sent twice may be refused for the sake of its own first copy, and Fence then writes it once more.
func Fence(
	ctx context.Context, client *s3.Client, term regent.Term, put *s3.PutObjectInput, body func(Stamp) []byte,
) (*s3.PutObjectOutput, error) {
	out, err := fence(ctx, client, term, put, body)
	if err != nil {
		return nil, fmt.Errorf("fence object %q of bucket %q at epoch %d: %w",
			aws.ToString(put.Key), aws.ToString(put.Bucket), term.Epoch, err)
	}

	return out, nil
}

func fence(
	ctx context.Context, client *s3.Client, term regent.Term, put *s3.PutObjectInput, body func(Stamp) []byte,
) (*s3.PutObjectOutput, error) {
	token := term.Token()
	if err := token.Validate(); err != nil {
		return nil, err
	}

	var err error
	for range fenceTries {
		var now condition
		if now, err = admitted(ctx, client, term, put); err != nil {
			return nil, err
		}

		stamp := Stamp{Epoch: token.Epoch, random: [2]uint64{rand.Uint64(), rand.Uint64()}}
		text := body(stamp)
		if !bytes.Contains(text, []byte(stamp.String())) {
			return nil, fmt.Errorf("%w %s", ErrNoStamp, stamp)
		}

		var out *s3.PutObjectOutput
		out, err = client.PutObject(ctx, fenced(put, term, now, text))
		if err == nil {
			return out, nil
		}

		kind := replacing
		if now == absent {
			kind = creating
		}

		switch err = classify(err, kind); {
		case errors.Is(err, driver.ErrConflict) && codeOf(err) == "NoSuchKey":
			return nil, fmt.Errorf("%w: %w", ErrFenceLost, err)
		case !errors.Is(err, driver.ErrConflict):
			return nil, err
		}
	}

	return nil, fmt.Errorf("others have written it %d times meanwhile: %w", fenceTries, err)
}

// fenced returns the write of one try.
func fenced(put *s3.PutObjectInput, term regent.Term, now condition, text []byte) *s3.PutObjectInput {
	in := *put
	in.Body = bytes.NewReader(text)
	in.ContentLength = aws.Int64(int64(len(text)))
	in.Metadata = map[string]string{fenceMark: url.Values{
		"election": {term.Election}, "epoch": {strconv.FormatUint(term.Epoch, 10)}, "term": {term.Incarnation},
	}.Encode()}
	for key, value := range put.Metadata {
		if !strings.EqualFold(key, fenceMark) {
			in.Metadata[key] = value
		}
	}

	in.IfMatch = nil
	in.IfNoneMatch = nil
	if now == absent {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(quoted(now.etag))
	}

	return &in
}

// admitted returns the condition on which a term may write an object, or a [regent.StaleError].
func admitted(ctx context.Context, client *s3.Client, term regent.Term, put *s3.PutObjectInput) (condition, error) {
	etag, mark, err := readMark(ctx, client, put)
	if err != nil {
		return condition{}, err
	}
	if etag == "" {
		return absent, nil // should that be wrong, the condition of the write fails
	}
	if mark == "" { // it was there before anybody fenced it
		return condition{etag}, nil
	}

	newest, election, err := parseMark(mark)
	switch {
	case err != nil:
		return condition{}, fmt.Errorf("its metadata %s is %.80q: %w", fenceMark, mark, err)
	case election != term.Election:
		return condition{}, fmt.Errorf("it is fenced by the terms of election %q, which those of %q cannot be "+
			"compared with", election, term.Election)
	case newest.Epoch > term.Epoch || newest.Epoch == term.Epoch && newest.Term != term.Incarnation:
		return condition{}, &regent.StaleError{
			Epoch: term.Epoch, Term: term.Incarnation, Newest: newest.Epoch, NewestTerm: newest.Term}
	}

	return condition{etag}, nil
}

// readMark returns the ETag and the mark of an object, or nothing if there is none. Two answers must be the same: a
// server that reads both in two steps may answer with those of two writes, and such a mixture does not come twice.
func readMark(ctx context.Context, client *s3.Client, put *s3.PutObjectInput) (etag, mark string, err error) {
	for range getTries {
		etagBefore, markBefore := etag, mark
		etag, mark, err = headMark(ctx, client, put)
		if err != nil || etag == "" || etag == etagBefore && mark == markBefore {
			return etag, mark, err
		}
	}
	return "", "", fmt.Errorf("%d answers of the server differ: others write the object all the time", getTries)
}

func headMark(ctx context.Context, client *s3.Client, put *s3.PutObjectInput) (etag, mark string, err error) {
	head, err := client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: put.Bucket, Key: put.Key})
	if statusOf(err) == http.StatusNotFound {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	for key, value := range head.Metadata {
		if strings.EqualFold(key, fenceMark) {
			mark = value
		}
	}
	etag, err = etagOf(head.ETag)
	return etag, mark, err
}

func parseMark(mark string) (newest regent.Token, election string, err error) {
	values, err := url.ParseQuery(mark)
	if err != nil {
		return regent.Token{}, "", err
	}

	epoch, err := strconv.ParseUint(values.Get("epoch"), 10, 64)
	if err != nil {
		return regent.Token{}, "", err
	}

	newest = regent.Token{Epoch: epoch, Term: values.Get("term")}
	return newest, values.Get("election"), newest.Validate()
}
