// Package check looks once at something: whether a web page answers, a port is open, a name resolves, a host echoes, a program succeeds.
//
// The zero Checker works:
//
//	outcome, err := new(check.Checker).Run(ctx, "http", site.URL+"/health", map[string]string{"contains": "ok"})
//
// An outcome is a finding about the target, good or bad. An error is not: it says that the check could not be made here, because it makes no
// sense, because this process may not make it, or because its context was cancelled. Only the deadline of the context is the target's fault.
//
// Nothing secret that a check was given gets into an outcome or an error: user and password of a URL, its query, headers, and what is sent.
// What the target answers may.
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

// Outcome is what a check found.
type Outcome struct {
	OK      bool              `json:"ok"`
	Message string            `json:"message,omitempty"` // why not, or what was found: one line of at most 500 bytes
	Latency time.Duration     `json:"latency"`
	Detail  map[string]string `json:"detail,omitempty"` // status, address, answer and the like
}

// Func is a kind of check that is not built in. It is told its limits as Run is.
type Func func(ctx context.Context, target string, options map[string]string) (Outcome, error)

// Checker makes checks, any number at a time.
type Checker struct {
	AllowExec  bool            // programs may be run
	Registered map[string]Func // further kinds by their names; the built-in ones cannot be replaced
}

var (
	// ErrUnknownKind says that no such kind is built in or registered.
	ErrUnknownKind = errors.New("unknown kind of check")
	// ErrNotPermitted says that this process may not make the check; another might.
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
	case !o.OK && errors.Is(ctx.Err(), context.Canceled): // whoever stopped it knows nothing of the target
		return Outcome{}, fmt.Errorf("%s check: %w", kind, context.Cause(ctx))
	}
	o.Message = oneLine(o.Message, messageMax)
	for name, value := range o.Detail {
		o.Detail[name] = oneLine(value, messageMax)
	}
	return o, nil
}

// prepare returns the check that is asked for, if it makes sense and is allowed.
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
