package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent/driver"
)

// Scheme begins an address.
const Scheme = "etcd+embedded:"

const (
	peerPort   = "2380"
	clientPort = "2379"

	// DefaultElectionTimeout is how long the members wait for their leader before they elect another one.
	DefaultElectionTimeout = time.Second
	minElectionTimeout     = 100 * time.Millisecond
	maxElectionTimeout     = 50 * time.Second // etcd's own limit
)

// Config says which member of which cluster a process runs, or connects to.
type Config struct {
	Dir   string // of this member's data
	Name  string // of this member
	Peers []Peer // all members of the first start, or as many as are known

	Listen          string // the IP address to listen on; empty for the host of the own peer
	New             bool   // an empty directory may begin a new cluster
	CA, Cert, Key   string // files; all of them or none
	Insecure        bool   // no TLS beyond loopback
	ElectionTimeout time.Duration
}

// Peer is a member as the address names it.
type Peer struct {
	Name   string
	Peer   string // host:port for the other members
	Client string // host:port for clients
}

// Parse parses an address:
//
//	etcd+embedded:DIR?peers=NAME=HOST[:PORT],…[&clients=NAME=HOST[:PORT],…][&key=value…]
//
// The keys are peers, clients, name, listen, state, ca, cert, key, insecure and electionTimeout: see docs/STORES.md.
// The name is that of this member if the address has none. An error is a [driver.ErrRefused].
func Parse(address, name string) (*Config, error) {
	c, err := parse(address, name)
	if err != nil {
		return nil, driver.Refused(fmt.Errorf("store %s: %w", address, err))
	}
	return c, nil
}

func parse(address, name string) (*Config, error) {
	rest, ok := strings.CutPrefix(address, Scheme)
	if !ok {
		return nil, errors.New("the address must begin with " + Scheme + "DIR")
	}
	dir, query, _ := strings.Cut(rest, "?")
	if dir == "" {
		return nil, refuse("directory", "", "must be given: "+Scheme+"DIR?peers=…")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the part after ? must be key=value&key=value; in values the characters % & ; + must " +
			"be percent-encoded")
	}

	c := &Config{Dir: dir, Name: name, ElectionTimeout: DefaultElectionTimeout}
	if err := c.set(values); err != nil {
		return nil, err
	}
	return c, errors.Join(c.validateListen(), c.validateTLS())
}

// set sets what the keys of an address say.
func (c *Config) set(values url.Values) error {
	var peers, clients, state, insecure, election string
	keys := map[string]*string{
		"peers": &peers, "clients": &clients, "name": &c.Name, "listen": &c.Listen, "state": &state, "ca": &c.CA,
		"cert": &c.Cert, "key": &c.Key, "insecure": &insecure, "electionTimeout": &election,
	}
	for key, all := range values {
		switch {
		case keys[key] == nil:
			return refuse(key, all[0], "is not known: the keys are peers, clients, name, listen, state, ca, cert, "+
				"key, insecure, electionTimeout")
		case len(all) > 1:
			return refuse(key, strings.Join(all, ","), "must be given once")
		case all[0] == "":
			return refuse(key, "", "must not be empty")
		}
		*keys[key] = all[0]
	}

	if err := c.setPeers(peers); err != nil {
		return err
	}
	if err := c.setClients(clients); err != nil {
		return err
	}
	return errors.Join(c.setState(state), c.setInsecure(insecure), c.setElection(election))
}

func (c *Config) setPeers(text string) error {
	all, err := hosts("peers", text, peerPort)
	if err != nil {
		return err
	}
	for _, h := range all {
		host, _, _ := net.SplitHostPort(h.address)
		c.Peers = append(c.Peers, Peer{Name: h.name, Peer: h.address, Client: net.JoinHostPort(host, clientPort)})
	}
	return nil
}

// setClients sets the addresses for clients of some members. The others have the host of their peer, and port 2379.
func (c *Config) setClients(text string) error {
	if text == "" {
		return nil
	}
	all, err := hosts("clients", text, clientPort)
	if err != nil {
		return err
	}
	for _, h := range all {
		i := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == h.name })
		if i < 0 {
			return refuse("clients", h.name, "must name members that peers names too")
		}
		c.Peers[i].Client = h.address
	}
	return nil
}

// namedHost is one entry of peers or clients.
type namedHost struct{ name, address string }

// hosts parses NAME=HOST[:PORT],….
func hosts(key, text, port string) ([]namedHost, error) {
	const rule = "must be NAME=HOST or NAME=HOST:PORT, separated by commas, each name once, each port from 1 to 65535"
	var all []namedHost
	for one := range strings.SplitSeq(text, ",") {
		name, address, ok := strings.Cut(one, "=")
		if bare := strings.Trim(address, "[]"); !strings.Contains(address, ":") || net.ParseIP(bare) != nil {
			address = net.JoinHostPort(bare, port)
		}

		host, number, err := net.SplitHostPort(address)
		n, wrong := strconv.ParseUint(number, 10, 16)
		twice := slices.ContainsFunc(all, func(h namedHost) bool { return h.name == name || h.address == address })
		ip := net.ParseIP(host)
		if !ok || name == "" || err != nil || wrong != nil || n == 0 || host == "" || twice || ip.IsUnspecified() {
			return nil, refuse(key, one, rule)
		}
		all = append(all, namedHost{name, address})
	}
	return all, nil
}

func (c *Config) setState(text string) error {
	switch text {
	case "", "existing":
		return nil
	case "new":
		c.New = true
		return nil
	}
	return refuse("state", text, "must be new, for the first start of a new cluster, or existing")
}

func (c *Config) setInsecure(text string) error {
	if text == "" {
		return nil
	}
	given, err := strconv.ParseBool(text)
	if err != nil {
		return refuse("insecure", text, "must be true or false")
	}
	c.Insecure = given
	return nil
}

func (c *Config) setElection(text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < minElectionTimeout || d > maxElectionTimeout {
		return refuse("electionTimeout", text, fmt.Sprintf("must be a duration from %v to %v: at least ten times the "+
			"round trip between two members, and well below leaseDuration", minElectionTimeout, maxElectionTimeout))
	}
	c.ElectionTimeout = d
	return nil
}

// own returns this member.
func (c *Config) own() (Peer, bool) {
	i := slices.IndexFunc(c.Peers, func(p Peer) bool { return p.Name == c.Name })
	if i < 0 {
		return Peer{}, false
	}
	return c.Peers[i], true
}

// MustRun returns an error if the address does not say which member this process is to run.
func (c *Config) MustRun() error {
	if _, ok := c.own(); ok {
		return nil
	}
	names := make([]string, len(c.Peers))
	for i, p := range c.Peers {
		names[i] = p.Name
	}
	return driver.Refused(fmt.Errorf("store %s%s: %w", Scheme, c.Dir, refuse("peers", strings.Join(names, ","),
		fmt.Sprintf("must name this node too, which is %q: change --node, or add it to peers, or give name=NAME",
			c.Name))))
}

// ClientAddress returns the address of the same cluster for clients, this member first:
//
//	etcd://host:port,host:port?ca=FILE&cert=FILE&key=FILE
func (c *Config) ClientAddress() string {
	all := slices.Clone(c.Peers)
	slices.SortStableFunc(all, func(a, b Peer) int {
		switch {
		case a.Name == c.Name:
			return -1
		case b.Name == c.Name:
			return 1
		}
		return 0
	})
	return c.address(all)
}

// OthersAddress returns the address of the other members, for a process that acts when this member is dead. It is empty
// if there are no others.
func (c *Config) OthersAddress() string {
	others := slices.DeleteFunc(slices.Clone(c.Peers), func(p Peer) bool { return p.Name == c.Name })
	if len(others) == 0 {
		return ""
	}
	return c.address(others)
}

func (c *Config) address(peers []Peer) string {
	clients := make([]string, len(peers))
	for i, p := range peers {
		clients[i] = p.Client
	}
	text := "etcd://" + strings.Join(clients, ",")
	if c.Cert == "" {
		return text
	}
	return text + "?" + url.Values{"ca": {c.CA}, "cert": {c.Cert}, "key": {c.Key}}.Encode()
}

// url returns the URL of a host:port.
func (c *Config) url(address string) string {
	if c.Cert != "" {
		return "https://" + address
	}
	return "http://" + address
}
