// Command testserver is etcd itself, for tests: 'testserver --name …' runs a member, and 'testserver snapshot restore
// …' is what etcdutl does.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "snapshot" {
		etcdmain.Main(os.Args)
		return
	}

	root := &cobra.Command{Use: "testserver"}
	root.AddCommand(etcdutl.NewSnapshotCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "testserver:", err)
		os.Exit(1)
	}
}
