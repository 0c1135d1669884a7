// Package check makes single checks of a target: whether a web page answers, a port is open, a name resolves, a host
// answers an echo request, a program succeeds.
//
// The zero Checker is usable:
//
//	outcome, err := new(check.Checker).Run(ctx, "http", site.URL+"/health", map[string]string{"contains": "ok"})
//
// An [Outcome] is a result about the target, good or bad. An error means that the check could not be made here: it
// makes no sense, this process may not make it, or its context was cancelled. A context whose deadline passes is an
// outcome: the target was too slow.
//
// No outcome and no error shows secrets of the check: user and password of a URL, its query, headers, and what is sent.
// An answer of the target may be shown.
package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Outcome is the result of a check.
type Outcome struct {
	OK      bool              `json:"ok"`
	Message string            `json:"message,omitempty"` // the reason, or what was found: one line of at most 500 bytes
	Latency time.Duration     `json:"-"`                 // latencyMs in JSON
	Detail  map[string]string `json:"detail,omitempty"`  // status, address, answer and the like
}

// Func is a kind of check that is not built in. It must end at the deadline of ctx.
type Func func(ctx context.Context, target string, options map[string]string) (Outcome, error)

// Checker makes checks. It may be used by several goroutines at once.
type Checker struct {
	AllowExec  bool            // programs may be run
	Registered map[string]Func // further kinds by their names; the built-in ones cannot be replaced
}

var (
	// ErrUnknownKind means that no such kind is built in or registered.
	ErrUnknownKind = errors.New("unknown kind of check")
	// ErrNotPermitted means that this process may not make the check. Another process might.
	ErrNotPermitted = errors.New("not permitted")
)

// Kinds returns the kinds that can be run here, sorted: exec only if it is allowed, icmp only if the system permits it.
func (c *Checker) Kinds() []string {
	kinds := slices.Collect(maps.Keys(c.Registered))
	for name := range builtin() {
		if name == "exec" && (!c.AllowExec || !execSupported) || name == "icmp" && echoPermitted() != nil {
			continue
		}
		kinds = append(kinds, name)
	}

	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Run makes one check, within the deadline of ctx.
func (c *Checker) Run(ctx context.Context, kind, target string, options map[string]string) (Outcome, error) {
	p, err := c.prepare(kind, target, options)
	if err != nil {
		return Outcome{}, err
	}
	if ctx.Err() != nil {
		return Outcome{}, fmt.Errorf("%s check: not begun: %w", kind, context.Cause(ctx))
	}

	began := time.Now()
	o, err := p(ctx)
	if o.Latency == 0 {
		o.Latency = time.Since(began)
	}

	switch {
	case err != nil:
		return Outcome{}, fmt.Errorf("%s check: %w", kind, err)
	case !o.OK && errors.Is(ctx.Err(), context.Canceled): // a cancelled check says nothing about the target
		return Outcome{}, fmt.Errorf("%s check: %w", kind, context.Cause(ctx))
	}

	o.Message = oneLine(o.Message, messageMax)
	for name, value := range o.Detail {
		o.Detail[name] = oneLine(value, messageMax)
	}

	return o, nil
}

// prepare returns the check, or an error if it makes no sense or is not allowed.
func (c *Checker) prepare(kind, target string, options map[string]string) (probe, error) {
	if f, ok := c.Registered[kind]; ok && !Builtin(kind) {
		return func(ctx context.Context) (Outcome, error) { return f(ctx, target, options) }, nil
	}
	if !Builtin(kind) {
		return nil, fmt.Errorf("%w %.80q: must be one of %s", ErrUnknownKind, kind, strings.Join(c.Kinds(), ", "))
	}
	if kind == "exec" && !c.AllowExec {
		return nil, fmt.Errorf("exec check: %w: programs are run only where execPolls is true", ErrNotPermitted)
	}

	p, faults := parse(kind, target, options)
	errs := make([]error, len(faults))
	for i, f := range faults {
		errs[i] = f
	}

	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%s check: %w", kind, err)
	}
	return p, nil
}
