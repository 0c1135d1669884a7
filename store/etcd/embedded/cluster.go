package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// States of a member.
const (
	StateLeader    = "leader"    // of the etcd cluster, whoever leads an election of Regent
	StateFollower  = "follower"  // it has a leader
	StateNoLeader  = "no leader" // it answers, but is cut off from a majority
	StateAway      = "does not answer"
	StateNotJoined = "never started" // it was added
)

const (
	dialTimeout = 5 * time.Second
	// statusTimeout is how long one member may take to answer.
	statusTimeout = 3 * time.Second
)

// Info is a member as the cluster lists it.
type Info struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Peer    string `json:"peer"`   // the URL for the other members
	Client  string `json:"client"` // the URL for clients
	State   string `json:"state"`
	Bytes   int64  `json:"bytes"`   // the size of its database
	Version string `json:"version"` // of etcd
	Error   string `json:"error,omitempty"`

	id uint64
}

// connect returns a client of the cluster. The caller closes it.
func (c *Config) connect(ctx context.Context) (*clientv3.Client, error) {
	config := clientv3.Config{
		Context: ctx, DialTimeout: dialTimeout, Logger: zap.NewNop(),
	}
	for _, p := range c.Peers {
		config.Endpoints = append(config.Endpoints, c.url(p.Client))
	}
	if c.Cert != "" {
		files := c.tlsFiles()
		own, err := files.ClientConfig()
		if err != nil {
			return nil, driver.Refused(fmt.Errorf("ca, cert and key: %w", err))
		}
		config.TLS = own
	}
	return clientv3.New(config)
}

// Members lists the members, each with its own state. It needs one member that answers, not a majority.
func (c *Config) Members(ctx context.Context) ([]Info, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	all, err := c.list(ctx, client)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	for i := range all {
		go func() {
			defer func() { done <- struct{}{} }()
			all[i].ask(ctx, client)
		}()
	}
	for range all {
		<-done
	}
	return all, nil
}

// list returns the members as one of them knows them.
func (c *Config) list(ctx context.Context, client *clientv3.Client) ([]Info, error) {
	answer, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil, fmt.Errorf("no member of the cluster answers at %s: %w", strings.Join(client.Endpoints(), ", "),
			err)
	}
	all := make([]Info, len(answer.Members))
	for i, m := range answer.Members {
		all[i] = Info{
			Name: m.Name, ID: fmt.Sprintf("%x", m.ID), Peer: strings.Join(m.PeerURLs, ","),
			Client: strings.Join(m.ClientURLs, ","), id: m.ID,
		}
		if m.Name == "" { // it gets its name when it starts; the address may know it
			all[i].Name = c.nameOf(m.PeerURLs)
			all[i].State = StateNotJoined
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// nameOf returns the name that the address has for a member.
func (c *Config) nameOf(peers []string) string {
	for _, p := range c.Peers {
		if slices.Contains(peers, c.url(p.Peer)) {
			return p.Name
		}
	}
	return ""
}

// ask asks the member itself for its state.
func (i *Info) ask(ctx context.Context, client *clientv3.Client) {
	if i.State == StateNotJoined || i.Client == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()

	url, _, _ := strings.Cut(i.Client, ",")
	s, err := client.Status(ctx, url)
	if err != nil {
		i.State = StateAway
		i.Error = err.Error()
		return
	}

	i.Bytes = s.DbSize
	i.Version = s.Version
	i.Error = strings.Join(s.Errors, "; ")
	i.State = StateFollower
	switch s.Leader {
	case 0:
		i.State = StateNoLeader
	case i.id:
		i.State = StateLeader
	}
}

// Add lets a member join that the address names. The member must be started then, with an empty directory.
func (c *Config) Add(ctx context.Context, name string) (Info, error) {
	i := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == name })
	if i < 0 {
		return Info{}, driver.Refused(refuse("peers", name, "must name the member that is added, with its host"))
	}
	peer := c.url(c.Peers[i].Peer)

	client, err := c.connect(ctx)
	if err != nil {
		return Info{}, err
	}
	defer client.Close()

	all, err := c.list(ctx, client)
	if err != nil {
		return Info{}, err
	}
	for _, m := range all {
		if m.Name == name || m.Peer == peer {
			return Info{}, fmt.Errorf("member %s at %s is there already; if it has lost its data, run 'regent etcd "+
				"remove %s' first", m.Name, m.Peer, m.Name)
		}
	}

	answer, err := client.MemberAdd(ctx, []string{peer})
	if err != nil {
		return Info{}, majority(err)
	}
	return Info{Name: name, ID: fmt.Sprintf("%x", answer.Member.ID), Peer: peer, State: StateNotJoined}, nil
}

// Remove removes a member, by its name or ID. Its process ends, and its directory is of no use any more.
func (c *Config) Remove(ctx context.Context, name string) (Info, error) {
	client, err := c.connect(ctx)
	if err != nil {
		return Info{}, err
	}
	defer client.Close()

	all, err := c.list(ctx, client)
	if err != nil {
		return Info{}, err
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
		if m.Name != name && m.ID != name {
			continue
		}
		if _, err := client.MemberRemove(ctx, m.id); err != nil {
			return Info{}, majority(err)
		}
		return m, nil
	}
	return Info{}, fmt.Errorf("there is no member %q; the members are %s", name, strings.Join(names, ", "))
}

// majority adds what to do to the error of a change that needs a majority.
func majority(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return fmt.Errorf("the change would leave the cluster without a majority of members that run: start the "+
			"members that are down, or remove those first. A member counts a few seconds after it has started: %w", err)
	case errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail):
		return fmt.Errorf("the cluster has no majority of members that run, so nothing in it can be changed; whether "+
			"this change is applied later is not known: %w", err)
	}
	return err
}
