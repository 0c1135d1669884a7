// Command testserver is a real S3 server for tests: versitygw over a directory, with one bucket.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("testserver", flag.ContinueOnError)
	dir := flags.String("dir", "", "the directory whose subdirectories are the buckets")
	listen := flags.String("listen", "", "host:port to listen on")
	user := flags.String("user", "", "the access key ID of the only account")
	secret := flags.String("secret", "", "its secret access key")
	bucket := flags.String("bucket", "", "a bucket to create")
	log := flags.String("log", "", "a file for the access log")
	if err := flags.Parse(args); err != nil {
		return err
	}

	if *bucket != "" {
		if err := os.MkdirAll(filepath.Join(*dir, *bucket), 0o700); err != nil {
			return fmt.Errorf("create bucket %q: %w", *bucket, err)
		}
	}

	backend, err := posix.New(*dir, meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		return fmt.Errorf("open directory %q: %w", *dir, err)
	}

	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess: *user, RootUserSecret: *secret,
		Ports: []string{*listen}, Quiet: true, KeepAlive: true,
		MaxConnections: 4096, MaxRequests: 4096, MultipartMaxParts: 10,
		AccessLog: *log,
	})
}
