// Command peers measures Regent beside the libraries that its users would choose otherwise, each as its documentation
// shows it, on real servers that it starts on free ports of the loopback and stops at the end.
//
//	make bench-peers                            all of them
//	make bench-peers PEERS='-rounds 20 redsync' one of them
//	make bench-peers PEERS='-figures standbys'  one figure
//
// It is a module of its own, and not part of the workspace, because the servers of etcd and NATS bring many modules.
package main

import (
	"io"
	"os"
	"slices"
	"time"

	"github.com/regentd/regent/bench/internal/compare"
	"k8s.io/klog/v2"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(compare.PeersMain(os.Args[1:], peers()))
}

// lease is that of the peers whose clients have one.
const lease = 30 * time.Second

func peers() []compare.Peer {
	all := slices.Concat(
		regentOn("PostgreSQL", "postgres", nil, openStorePostgres),
		regentOn("etcd", "etcd", startEtcd, openStoreEtcd),
		regentOn("NATS", "nats", startNATS, openStoreNATS),
	)
	return append(all,
		compare.Peer{Name: "etcd concurrency.Election", Server: "etcd", Start: startEtcd, Open: openEtcd, Lease: lease},
		compare.Peer{Name: "NATS KV", Server: "nats", Start: startNATS, Open: openNATS, Lease: lease},
		compare.Peer{Name: "River's elector", Server: "postgres", Open: openRiver, MostClients: 16, Asked: true},
		compare.Peer{Name: "client-go leaderelection", Server: "etcd", Start: startEtcd, Open: openClientGo,
			Slow: true},
	)
}
