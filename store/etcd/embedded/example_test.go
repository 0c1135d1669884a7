package embedded_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/regentd/regent/store/etcd/embedded"
)

// freePort returns the address of a free port.
func freePort() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func Example() {
	dir, err := os.MkdirTemp("", "regent-embedded-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("STORE_ADDRESS", fmt.Sprintf("etcd+embedded:%s?peers=node-a=%s&clients=node-a=%s&state=new", dir,
		freePort(), freePort()))
	ctx := context.Background()

	config, err := embedded.Parse(os.Getenv("STORE_ADDRESS"), "node-a")
	if err != nil {
		log.Fatal(err)
	}
	member, err := embedded.Start(ctx, config, embedded.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer member.Close()

	all, err := config.Members(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(all), "member:", all[0].Name)
	// Output: 1 member: node-a
}
