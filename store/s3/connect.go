package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/logging"
	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
)

const (
	dialTimeout = 3 * time.Second
	// idleConnections is how many connections are kept for the next requests: as many as one List or Refresh uses.
	idleConnections = readers
)

// connect builds the client. It sends nothing to the bucket; the SDK may read files and variables.
func (s *Store) connect(ctx context.Context, opts Options) error {
	a := s.addr
	load := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(transport)),
		// A write that the SDK sends again meets what it has written itself, and is answered as a conflict.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		// It would write to standard error by itself. Whatever matters is in an error.
		config.WithLogger(logging.Nop{}),
	}

	if a.region != "" {
		load = append(load, config.WithRegion(a.region))
	}

	if opts.Credentials != nil {
		load = append(load, config.WithCredentialsProvider(opts.Credentials))
	}

	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return driver.Refused(fmt.Errorf("read the configuration of the AWS SDK: %w", err))
	}

	if cfg.AppID == "" { // what the server's log shows of this client
		cfg.AppID = "regent"
	}

	if cfg.Region == "" {
		if a.endpoint == "" {
			return driver.Refused(&regent.ConfigError{Key: "region", Value: `""`,
				Rule: "must be given in the address (?region=eu-central-1), in AWS_REGION or in the AWS profile"})
		}

		cfg.Region = "us-east-1"
	}

	// The transport of the SDK's client has what AWS_CA_BUNDLE says by now. A copy of it is this store's own, so that
	// Close can close its connections.
	buildable, ok := cfg.HTTPClient.(*awshttp.BuildableClient)
	if !ok {
		return errors.New("the AWS SDK has replaced its HTTP client")
	}

	own := buildable.GetTransport()
	s.closeIdle = own.CloseIdleConnections

	s.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient = &http.Client{Transport: own, CheckRedirect: noRedirect}
		o.UsePathStyle = a.pathStyle
		// Only what S3 itself requires: other servers do not know the newer checksums.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.DisableLogOutputChecksumValidationSkipped = true
		if a.endpoint != "" {
			o.BaseEndpoint = aws.String(a.endpoint)
		}
	})

	s.server = "https://s3." + cfg.Region + ".amazonaws.com"
	if endpoint := s.client.Options().BaseEndpoint; endpoint != nil {
		s.server = *endpoint
	}

	return nil
}

// transport sets up connections for requests that must not wait for one another: HTTP/1.1 has one request at a time on
// each, so that one which hangs stops no other.
func transport(t *http.Transport) {
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	t.MaxIdleConnsPerHost = idleConnections
	t.ForceAttemptHTTP2 = false
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
}

// noRedirect returns a redirect as it is: it says that the region is wrong.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
