package embedded

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

const (
	tlsVersion = tls.VersionTLS12
	// askTimeout is how long another member may take to list the cluster.
	askTimeout = 3 * time.Second
	// maxList is the size of the longest list, in bytes.
	maxList = 1 << 20
)

// listed is a member as the others list it.
type listed struct {
	PeerURLs   []string `json:"peerURLs"`
	Name       string   `json:"name"`       // empty until it has started
	ClientURLs []string `json:"clientURLs"` // empty until it has started and reached a majority
}

// begin decides what an empty directory means, and completes the configuration of etcd.
//
// etcd itself asks the other members only on a new cluster, and takes no answer for a new one. A member that has lost
// its directory, and is started while the others are down, would then vote again in elections in which it has voted,
// and answered writes could be lost without a word. So here an empty directory needs a statement by somebody who knows:
// state=new, or a member that was added to the cluster.
func (c *Config) begin(ctx context.Context, s *embed.Config) error {
	lists, err := c.ask(ctx)
	if err != nil {
		return err
	}
	members, err := c.decide(lists)
	if err != nil {
		return err
	}

	cluster := make([]string, 0, len(c.Peers))
	if members == nil {
		for _, p := range c.Peers {
			cluster = append(cluster, p.Name+"="+c.url(p.Peer))
		}
		s.ClusterState = embed.ClusterStateFlagNew
	}
	for _, m := range members {
		for _, u := range m.PeerURLs {
			cluster = append(cluster, m.Name+"="+u)
		}
		s.ClusterState = embed.ClusterStateFlagExisting
	}
	s.InitialCluster = strings.Join(cluster, ",")
	return nil
}

// decide returns the members of the cluster that this member joins, or nil for a new cluster. It has what other members
// list.
func (c *Config) decide(lists [][]listed) ([]listed, error) {
	own, _ := c.own()
	mine := c.url(own.Peer)
	for _, all := range lists {
		i := slices.IndexFunc(all, func(m listed) bool { return slices.Contains(m.PeerURLs, mine) })
		switch {
		case i < 0:
			return nil, fmt.Errorf("there is a cluster, and %s is no member of it: run 'regent etcd add %s' with the "+
				"same --store; this node goes on trying", mine, c.Name)
		case len(all[i].ClientURLs) > 0:
			return nil, c.lost()
		case all[i].Name == "": // it was added
			members := slices.Clone(all)
			members[i].Name = c.Name
			return members, nil
		}
	}

	if !c.New {
		return nil, fmt.Errorf("its directory %s is empty, and no other member answers for a cluster that it was "+
			"added to. For the first start of a new cluster add state=new to the store's address on all hosts. If "+
			"this member had data before, start the others first, then "+
			"'regent etcd remove %s' and 'regent etcd add %s'",
			c.Dir, c.Name, c.Name)
	}
	return nil, nil
}

// lost returns the error of a member that comes back empty.
func (c *Config) lost() error {
	return fmt.Errorf("its directory %s is empty, but the cluster knows this member: it has lost its data, and must "+
		"not vote as if it had it. Run 'regent etcd remove %s' and then 'regent etcd add %s' with the same --store; "+
		"this node goes on trying, and joins then", c.Dir, c.Name, c.Name)
}

// ask returns what each of the other members lists that answers.
func (c *Config) ask(ctx context.Context) ([][]listed, error) {
	var files transport.TLSInfo
	if c.Cert != "" {
		files = c.tlsFiles()
	}
	tr, err := transport.NewTransport(files, askTimeout)
	if err != nil {
		return nil, err
	}
	defer tr.CloseIdleConnections()

	client := &http.Client{Transport: tr, Timeout: askTimeout}
	answers := make(chan []listed, len(c.Peers))
	for _, p := range c.Peers {
		go func() {
			if p.Name == c.Name {
				answers <- nil
				return
			}
			all, _ := list(ctx, client, c.url(p.Peer)) // one that does not answer knows nothing
			answers <- all
		}()
	}

	var lists [][]listed
	for range c.Peers {
		if all := <-answers; len(all) > 0 {
			lists = append(lists, all)
		}
	}
	return lists, ctx.Err()
}

// list asks one member for the list.
func list(ctx context.Context, client *http.Client, peer string) ([]listed, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, peer+"/members", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}

	var all []listed
	err = json.NewDecoder(io.LimitReader(answer.Body, maxList)).Decode(&all)
	return all, err
}

// gone reports whether another member lists a cluster without this one.
func (m *Member) gone() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*askTimeout)
	defer cancel()

	lists, err := m.config.ask(ctx)
	if err != nil {
		return false
	}
	own, _ := m.config.own()
	return slices.ContainsFunc(lists, func(all []listed) bool {
		return !slices.ContainsFunc(all, func(l listed) bool {
			return slices.Contains(l.PeerURLs, m.config.url(own.Peer))
		})
	})
}
