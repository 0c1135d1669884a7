// Command testserver is nats-server itself, for tests: 'testserver -c FILE'. 'testserver keys DIR' writes keys of users
// and what servers must know of them.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "keys" {
		if err := writeKeys(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "testserver:", err)
			os.Exit(1)
		}
		return
	}

	flags := flag.NewFlagSet("testserver", flag.ExitOnError)
	opts, err := server.ConfigureOptions(flags, os.Args[1:], server.PrintServerAndExit, flags.Usage, flags.Usage)
	if err == nil {
		err = run(opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}

func run(opts *server.Options) error {
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}

	s.ConfigureLogger()
	if err := server.Run(s); err != nil {
		return err
	}
	s.WaitForShutdown()
	return nil
}
