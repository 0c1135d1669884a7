// Command sqlitewriter is a single-writer program for tests of 'regent run' on S3. Like Litestream it has a SQLite
// database on local disk, and a copy of it in a bucket: at its start it restores the newest copy, then it adds a row
// and uploads the next copy, again and again.
//
// Copies are numbered, and a copy is uploaded on the condition that there is none of its number yet. So a writer that
// was frozen and goes on after another has taken over uploads nothing any more: it ends with exit code 3.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	_ "modernc.org/sqlite"
)

// every is the time between two rows.
const every = 20 * time.Millisecond

// errOther says that another writer has uploaded the next copy.
var errOther = errors.New("another writer has taken over")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	err := run(ctx, os.Args[1:])
	switch {
	case errors.Is(err, errOther):
		fmt.Fprintln(os.Stderr, "sqlitewriter:", err)
		os.Exit(3)
	case err != nil && ctx.Err() == nil:
		fmt.Fprintln(os.Stderr, "sqlitewriter:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("sqlitewriter", flag.ContinueOnError)
	file := flags.String("db", "", "the database")
	endpoint := flags.String("endpoint", "", "of the S3 server")
	bucket := flags.String("bucket", "", "for the copies")
	if err := flags.Parse(args); err != nil {
		return err
	}

	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	w := &writer{file: *file, bucket: *bucket, client: s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint = endpoint
		o.UsePathStyle = true
		o.Retryer = aws.NopRetryer{} // a second try of an upload would meet the first
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
	})}

	if err := w.restore(ctx); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	for {
		if err := w.write(ctx, os.Getenv("REGENT_EPOCH"), os.Getenv("REGENT_NODE")); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// writer has the database open, and knows which copy is the newest.
type writer struct {
	file   string
	bucket string
	client *s3.Client
	db     *sql.DB
	copies int
}

// key returns the name of a copy.
func key(n int) string { return fmt.Sprintf("copies/%08d.db", n) }

// restore replaces the database by its newest copy, if there is one.
func (w *writer) restore(ctx context.Context) error {
	if err := os.Remove(w.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	newest := ""
	pages := s3.NewListObjectsV2Paginator(w.client, &s3.ListObjectsV2Input{
		Bucket: &w.bucket, Prefix: aws.String("copies/"),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, o := range page.Contents {
			newest = max(newest, aws.ToString(o.Key))
		}
	}

	if newest != "" {
		if err := w.download(ctx, newest); err != nil {
			return err
		}
	}

	db, err := sql.Open("sqlite", w.file)
	if err != nil {
		return err
	}
	w.db = db
	_, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS writes (n INTEGER PRIMARY KEY, epoch TEXT, node TEXT)")
	return err
}

func (w *writer) download(ctx context.Context, newest string) error {
	out, err := w.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &w.bucket, Key: &newest})
	if err != nil {
		return err
	}
	defer out.Body.Close()

	content, err := io.ReadAll(out.Body)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscanf(strings.TrimPrefix(newest, "copies/"), "%d.db", &w.copies); err != nil {
		return err
	}
	return os.WriteFile(w.file, content, 0o600)
}

// write adds a row, and uploads the database as the next copy.
func (w *writer) write(ctx context.Context, epoch, node string) error {
	n := w.copies + 1
	if _, err := w.db.ExecContext(ctx, "INSERT INTO writes VALUES (?, ?, ?)", n, epoch, node); err != nil {
		return fmt.Errorf("write row %d: %w", n, err)
	}
	content, err := os.ReadFile(w.file)
	if err != nil {
		return err
	}

	_, err = w.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &w.bucket, Key: aws.String(key(n)), Body: bytes.NewReader(content), IfNoneMatch: aws.String("*"),
		Metadata: map[string]string{"epoch": epoch},
	})
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusPreconditionFailed {
		return errOther
	}
	if err != nil {
		return fmt.Errorf("upload copy %d: %w", n, err)
	}

	w.copies = n
	return nil
}
