package node

import (
	"cmp"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/regentd/regent"
)

// Facts that members publish in their registers. All but host and pid are compared with those of other members.
const (
	factToken   = "token"
	factLease   = "lease"
	factDelay   = "delay"
	factRank    = "rank"
	factProfile = "profile"
	factVersion = "version"
	factHost    = "host"
	factPID     = "pid"
)

// Facts returns what a node publishes about itself. The token is published as a short digest.
func Facts(election, token, profile, version string, c regent.Config) (map[string]string, error) {
	digest, err := tokenDigest(token, election)
	if err != nil {
		return nil, fmt.Errorf("digest of the token: %w", err)
	}

	facts := Process()
	facts[factToken] = digest
	facts[factLease] = c.LeaseDuration.String()
	facts[factDelay] = c.TakeoverDelay.String()
	facts[factRank] = string(cmp.Or(c.Rank, regent.RankFirst))
	facts[factProfile] = profile
	facts[factVersion] = version
	return facts, nil
}

// Times returns the lease and the takeover delay that a member publishes; 0 for what it does not.
func Times(v regent.MemberView) (lease, delay time.Duration) {
	duration := func(fact string) time.Duration {
		d, err := time.ParseDuration(v.Facts[fact])
		if err != nil {
			return 0
		}
		return d
	}
	return duration(factLease), duration(factDelay)
}

// Process returns the facts by which users find this process: its host and its process ID.
func Process() map[string]string {
	facts := map[string]string{factPID: strconv.Itoa(os.Getpid())}
	if host, err := os.Hostname(); err == nil {
		facts[factHost] = host
	}

	return facts
}

// noToken is the digest of a node without a token.
const noToken = "none"

// Everybody who can read the store sees the digest of the token. It is slow to compute, and only 16 bits of it are
// published: it can refute a guess, at a cost, but never confirm one. Two different tokens have the same digest once in
// 65,536 cases.
const (
	digestRounds = 200_000
	digestBytes  = 2
)

func tokenDigest(token, election string) (string, error) {
	if token == "" {
		return noToken, nil
	}

	salt := []byte("regent cluster token\x00" + election)
	sum, err := pbkdf2.Key(sha256.New, token, salt, digestRounds, sha256.Size)
	if err != nil {
		return "", err
	}

	return hex.EncodeToString(sum[:digestBytes]), nil
}

// Publish replaces the facts that this node publishes and compares.
func (n *Node) Publish(facts map[string]string) error {
	if err := n.Member.SetFacts(facts); err != nil {
		return err
	}

	n.mu.Lock()
	defer n.mu.Unlock()
	n.facts = facts
	return nil
}

// published returns the facts that this node publishes.
func (n *Node) published() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.facts
}
