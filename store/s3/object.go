package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// This file has the requests that a store sends, each once.

// object is what a GET has shown.
type object struct {
	etag string
	body []byte
	age  time.Duration // since it was written, by the server's clock
}

// maxBody is the longest object that is read as a register. A record with its longest checkpoint has about 100 KiB.
const maxBody = 1 << 20

// condition is what a write depends on: the ETag that the object must have, or that there must be none.
type condition struct{ etag string }

// absent is the condition that there is no object yet.
var absent = condition{}

// whole reports whether the ETag is the MD5 hash of the content: then both are of one write. Other servers, and objects
// that are encrypted with a key of KMS, have ETags of another kind.
func (o object) whole() bool { return o.etag == md5Of(o.body) }

func md5Of(body []byte) string {
	sum := md5.Sum(body)
	return hex.EncodeToString(sum[:])
}

// getTries is how often an object is read until its ETag and its content are of one write.
const getTries = 5

// get reads an object. If its ETag is still known, the server answers without a body, and get returns errUnchanged.
//
// A server that reads the ETag and the content in two steps may answer with those of two writes. A swap would then be
// made on a revision whose record nobody has read. So where the ETag is no hash of the content, the object is read
// again, until two answers are the same: a mixture of two writes does not come twice.
func (s *Store) get(ctx context.Context, key, known string) (object, error) {
	var last object
	for range getTries {
		o, err := s.getOnce(ctx, key, known)
		if err != nil {
			return object{}, err
		}
		if o.whole() || s.opaque.Load() || o.etag == last.etag && bytes.Equal(o.body, last.body) {
			return o, nil
		}
		last = o
	}
	return object{}, fmt.Errorf("%d answers of the server have ETags that are no hash of the content, and differ",
		getTries)
}

func (s *Store) getOnce(ctx context.Context, key, known string) (object, error) {
	in := &s3.GetObjectInput{Bucket: &s.addr.bucket, Key: &key}
	if known != "" {
		in.IfNoneMatch = aws.String(quoted(known))
	}

	s.requests.Add("get")
	out, err := s.client.GetObject(ctx, in)
	if err != nil {
		if statusOf(err) == http.StatusNotModified {
			return object{}, errUnchanged
		}

		return object{}, s.failure(err, reading)
	}

	defer out.Body.Close()

	body, err := io.ReadAll(io.LimitReader(out.Body, maxBody+1))
	switch {
	case err != nil:
		return object{}, fmt.Errorf("read the object: %w", &unansweredError{s.server, err})
	case len(body) > maxBody:
		return object{}, fmt.Errorf("the object has more than %d bytes: %w", maxBody, errUnreadable)
	}

	etag, err := etagOf(out.ETag)
	if err != nil {
		return object{}, err
	}

	return object{etag: etag, body: body, age: ageOf(out)}, nil
}

// put writes an object under a condition, and returns its new ETag.
func (s *Store) put(ctx context.Context, key string, body []byte, if_ condition) (string, error) {
	in := &s3.PutObjectInput{
		Bucket: &s.addr.bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
		ContentType: aws.String("application/json"), ServerSideEncryption: s.addr.sse,
	}
	if s.addr.kmsKey != "" {
		in.SSEKMSKeyId = &s.addr.kmsKey
	}

	kind := creating
	if if_ == absent {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = aws.String(quoted(if_.etag))
		kind = replacing
	}

	s.requests.Add("put")
	out, err := s.client.PutObject(ctx, in)
	if err != nil {
		return "", s.failure(err, kind)
	}
	etag, err := etagOf(out.ETag)
	if err == nil {
		s.opaque.Store(etag != md5Of(body))
	}
	return etag, err
}

// entry is an object of a list.
type entry struct {
	key  string
	etag string
	size int
}

// listPage is how many objects one request lists: as many as S3 gives.
const listPage = 1000

// list returns one page of the objects whose keys begin with prefix, and the token of the next page, if there is one.
func (s *Store) list(ctx context.Context, prefix, token string) ([]entry, string, error) {
	in := &s3.ListObjectsV2Input{Bucket: &s.addr.bucket, Prefix: &prefix, MaxKeys: aws.Int32(listPage)}
	if token != "" {
		in.ContinuationToken = &token
	}

	s.requests.Add("list")
	out, err := s.client.ListObjectsV2(ctx, in)
	if err != nil {
		return nil, "", s.failure(err, listing)
	}

	entries := make([]entry, 0, len(out.Contents))
	for _, o := range out.Contents {
		etag, _ := etagOf(o.ETag) // one that is missing is found by the read
		entries = append(entries, entry{key: aws.ToString(o.Key), etag: etag, size: int(aws.ToInt64(o.Size))})
	}

	next := aws.ToString(out.NextContinuationToken)
	if aws.ToBool(out.IsTruncated) && next == "" {
		return nil, "", errors.New("the server says that there are more objects, and not how to ask for them")
	}

	return entries, next, nil
}

// etagOf returns an ETag without its quotes.
func etagOf(etag *string) (string, error) {
	e := strings.Trim(aws.ToString(etag), `"`)
	if e == "" {
		return "", errors.New("the server answered without an ETag")
	}

	return e, nil
}

func quoted(etag string) string { return `"` + etag + `"` }
