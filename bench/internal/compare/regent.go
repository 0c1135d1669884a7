package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"github.com/regentd/regent/store/redis"
)

// regentMember is a member with a connection of its own.
type regentMember struct {
	store  driver.Store
	member *regent.Member
}

// openRedis opens a store on Redis.
func openRedis(ctx context.Context, addr string) (driver.Store, error) {
	return redis.Open(ctx, "redis://"+addr, redis.Options{})
}

func openRegent(cfg regent.Config) func(context.Context, string) (Contender, error) {
	return func(ctx context.Context, addr string) (Contender, error) {
		return newRegentMember(ctx, addr, cfg, reportLoss)
	}
}

// reportLoss prints what should not happen in a measurement: a term was lost, and not released.
func reportLoss(e regent.Event) {
	reason := e.Metadata["reason"]
	lost := e.Kind == regent.EventLostLeadership && reason != string(regent.ReasonShutdown)
	if lost || e.Kind == regent.EventMemberDropped {
		fmt.Fprintln(os.Stderr, "bench:", e.Time.Format(time.TimeOnly), e.Node, e.Kind, "epoch", e.Epoch, reason)
	}
}

func newRegentMember(ctx context.Context, addr string, cfg regent.Config, onEvent func(regent.Event)) (*regentMember,
	error) {
	return newMemberOn(ctx, openRedis, addr, cfg, onEvent)
}

// newMemberOn is newRegentMember on a store of any kind.
func newMemberOn(ctx context.Context, open func(context.Context, string) (driver.Store, error), addr string,
	cfg regent.Config, onEvent func(regent.Event)) (*regentMember, error) {
	store, err := open(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &regentMember{store, &regent.Member{Store: store, ID: rand.Text(), Config: cfg, OnEvent: onEvent}}, nil
}

func (r *regentMember) Hold(ctx context.Context, election string, led func()) error {
	err := r.member.Lead(ctx, election, func(ctx context.Context, _ regent.Term) error {
		led()
		<-ctx.Done()
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}

	return err
}

func (r *regentMember) Once(ctx context.Context, election string) error {
	return r.member.Lead(ctx, election, func(context.Context, regent.Term) error { return nil })
}

func (r *regentMember) Close() { closeQuietly(r.store) }
