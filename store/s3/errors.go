package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/regentd/regent/driver"
)

var (
	// errUnchanged says that an object still has the ETag that is known.
	errUnchanged = errors.New("the object has not changed")
	// errUnreadable says that an object is no record of Regent's.
	errUnreadable = errors.New("is no register of Regent")
)

// Validate reports what is wrong with an address, without contacting anybody. Open would refuse it in the same words.
func Validate(addr string) error {
	if _, err := parseAddress(addr); err != nil {
		return fmt.Errorf("store %s: %w", redact(addr), driver.Refused(err))
	}

	return nil
}

// WriteInterval returns how often an object may be written at an address, or 0 if there is no limit or the address is
// not valid: see [Store.WriteInterval].
func WriteInterval(addr string) time.Duration {
	a, err := parseAddress(addr)
	if err != nil {
		return 0
	}

	return a.writeInterval
}

// requestKind is what a request wants, which decides what an answer means.
type requestKind int

const (
	reading requestKind = iota
	listing
	creating  // on the condition that there is no object
	replacing // on the condition of an ETag
)

func (k requestKind) writes() bool { return k == creating || k == replacing }

// refusals are the codes of answers that stay as they are until somebody changes the server or the configuration.
func refusals() []string {
	return []string{
		"AccessDenied", "AllAccessDisabled", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
		"InvalidAccessKeyId", "InvalidBucketName", "KMS.DisabledException", "KMS.NotFoundException", "NoSuchBucket",
		"NotImplemented", "PermanentRedirect", "SignatureDoesNotMatch", "XAdminUserNotFound",
	}
}

// classify tells what an error of a request means. A conflict, and a register that is not there, are answers of the
// server itself, with its code: any other server on the way that answers 404 or 412 proves nothing. All else is
// unknown: a timeout, 409 ConditionalRequestConflict, 429 and 503 SlowDown, 500. A read settles it.
func classify(err error, kind requestKind) error {
	code := codeOf(err)
	status := statusOf(err)
	switch {
	case status == http.StatusPreconditionFailed && code == "PreconditionFailed" && kind.writes():
		return fmt.Errorf("%w: %w", driver.ErrConflict, err)
	case status == http.StatusNotFound && code == "NoSuchKey" && kind == replacing:
		// Somebody has deleted the object, or the store has gone back. It is read, and never created in its place.
		return fmt.Errorf("the object is gone: %w: %w", driver.ErrConflict, err)
	case status == http.StatusNotFound && code == "NoSuchKey" && kind == reading:
		return driver.ErrNotFound
	case code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch", code == "XAdminUserNotFound":
		return driver.Refused(driver.WithProblem(driver.ProblemLogin, err))
	case code == "AccessDenied", code == "AllAccessDisabled":
		return driver.Refused(driver.WithProblem(driver.ProblemPermission, err))
	case slices.Contains(refusals(), code):
		return driver.Refused(err)
	case strings.Contains(err.Error(), "get credentials"):
		return fmt.Errorf("%w: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine "+
			"or the container a role: %w", driver.ErrCredentials, err)
	}

	return err
}

// unansweredError is an error of a request that got no answer: it names the server, which the SDK does not.
type unansweredError struct {
	server string
	err    error
}

// Error returns the cause alone, without the SDK's words about a response that there is not.
func (e *unansweredError) Error() string {
	var dial *net.OpError
	switch {
	case errors.As(e.err, &dial):
		return fmt.Sprintf("no answer from %s: %v", e.server, dial)
	case errors.Is(e.err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer from %s: %v", e.server, context.DeadlineExceeded)
	}

	return fmt.Sprintf("no answer from %s: %v", e.server, e.err)
}

func (e *unansweredError) Unwrap() error { return e.err }

// failure tells what an error of a request means, and which server has not answered.
func (s *Store) failure(err error, kind requestKind) error {
	meaning := classify(err, kind)
	if statusOf(err) != 0 || codeOf(err) != "" || errors.Is(meaning, driver.ErrCredentials) {
		return meaning
	}

	return &unansweredError{s.server, meaning}
}

// codeOf returns the code of an answer, or nothing if there was none.
func codeOf(err error) string {
	var answer smithy.APIError
	if !errors.As(err, &answer) {
		return ""
	}

	return answer.ErrorCode()
}

// statusOf returns the HTTP status of an answer, or 0 if there was none.
func statusOf(err error) int {
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPResponse() != nil && answer.HTTPResponse().Response != nil {
		return answer.HTTPStatusCode()
	}

	return 0
}

// ageOf returns how long ago an object was written, by the clock of the server alone.
func ageOf(out *s3.GetObjectOutput) time.Duration {
	now, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok || out.LastModified == nil {
		return 0
	}

	return now.Sub(aws.ToTime(out.LastModified))
}
