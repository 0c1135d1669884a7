package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/regentd/regent"
	"github.com/regentd/regent/cmd/regent/internal/cost"
)

// newS3Fleet returns a fleet on a real S3 server, behind a log of its own. It names no profile: for S3 that is fleet.
func newS3Fleet(t *testing.T, s *s3Server, size int, args ...string) *fleet {
	t.Helper()
	if _, err := binary(); err != nil { // so that no measurement includes the build
		t.Fatal(err)
	}

	log := s.logged(t)
	_, prefix, _ := strings.Cut(log.at, ":") // no other fleet has it
	f := &fleet{t: t, home: t, log: log, store: log.address("fleet-" + prefix), env: s3Env, args: args}
	f.of(size)
	return f
}

// step runs a subtest of a fleet that goes on afterwards.
func (f *fleet) step(t *testing.T, name string, check func(t *testing.T)) {
	t.Helper()
	use := func(t *testing.T) { // a helper that fails ends the subtest that called it
		f.t = t
		f.log.t = t
		for _, d := range f.nodes {
			if d != nil {
				d.t = t
			}
		}
	}

	t.Run(name, func(inner *testing.T) {
		use(inner)
		defer use(t)
		check(inner)
	})
}

// alive returns the nodes that run.
func (f *fleet) alive() []*daemon {
	return slices.DeleteFunc(slices.Clone(f.nodes), func(d *daemon) bool {
		select {
		case <-d.gone:
			return true
		default:
			return false
		}
	})
}

// term waits for the n-th term, as the server's log shows it, until every node that runs names its leader.
func (f *fleet) term(n int) s3Request {
	f.t.Helper()
	var terms []s3Request
	waitFor(f.t, fmt.Sprintf("term %d begins", n), func() bool {
		terms = f.log.terms("coordinator")
		return len(terms) >= n
	})

	term := terms[n-1]
	for _, d := range f.alive() {
		if d.name != term.record.Holder {
			d.await(fmt.Sprintf(`msg="leader changed".* epoch=%d .*new_leader=%s( |$)`, term.record.Epoch,
				term.record.Holder))
		}
	}
	return term
}

// killLeader ends the leader by SIGKILL, and returns who leads then, and how long after the signal its claim came to
// the server. Where the fleet is so configured, it fails if that is not the smallest ID that runs.
func (f *fleet) killLeader(from s3Request) (next s3Request, took time.Duration) {
	f.t.Helper()
	return f.endLeader(from, syscall.SIGKILL)
}

// stopLeader is killLeader by SIGTERM.
func (f *fleet) stopLeader(from s3Request) (next s3Request, took time.Duration) {
	f.t.Helper()
	return f.endLeader(from, syscall.SIGTERM)
}

func (f *fleet) endLeader(from s3Request, by syscall.Signal) (next s3Request, took time.Duration) {
	f.t.Helper()
	i := slices.IndexFunc(f.nodes, func(d *daemon) bool { return d.name == from.record.Holder })
	before := len(f.log.terms("coordinator"))
	delay := watchMachine()
	killed := time.Now()
	f.nodes[i].signal(by)
	<-f.nodes[i].gone

	next = f.term(before + 1)
	took = next.came.Sub(killed)
	slowest := f.followed(next)
	late := delay()
	f.t.Logf("%s got %v, %s leads %v later, the last node knows after another %v (late by at most %v): %v",
		from.record.Holder, by, next.record.Holder, took.Round(time.Millisecond), slowest.Round(time.Millisecond),
		late.Round(time.Millisecond), f.log.purposes(next.came, next.came.Add(slowest)))
	if want := f.alive()[0].name; f.next && next.record.Holder != want {
		f.t.Errorf("%s leads after %s, want %s, the smallest ID; its requests: %v", next.record.Holder,
			from.record.Holder, want, f.log.story(want, killed, next.came))
	}
	if f.follow > 0 && slowest > f.follow && late < time.Second {
		f.t.Errorf("the last node knows of %s after %v, want at most %v", next.record.Holder, slowest, f.follow)
	}
	if n := len(f.log.terms("coordinator")); n != before+1 {
		f.t.Errorf("%d terms have begun after that of %s", n-before, from.record.Holder)
	}
	return next, took
}

// followed returns how long after a claim the last node logged who leads.
func (f *fleet) followed(term s3Request) time.Duration {
	f.t.Helper()
	last := time.Duration(0)
	for _, d := range f.alive() {
		if d.name != term.record.Holder {
			at := d.logged(fmt.Sprintf(`msg="leader changed".* epoch=%d `, term.record.Epoch))
			last = max(last, at.Sub(term.came))
		}
	}
	return last
}

// waited returns how long a node says that it has waited at its start.
func (d *daemon) waited() time.Duration {
	d.t.Helper()
	ms, err := strconv.ParseFloat(d.await(`member:started.* waitedMs=(\S+)`), 64)
	if err != nil {
		d.t.Error(err)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// jittered checks that a process had not connected to the server before its wait was over, and that the wait was within
// bounds. It returns when its first request came, after the start of the process.
func (f *fleet) jittered(k int, low, high time.Duration) time.Duration {
	f.t.Helper()
	d := f.nodes[k]
	waited := d.waited()
	if waited < low || waited > high+10*time.Second { // a busy machine may be late
		f.t.Errorf("%s waited %v, want %v to %v", d.name, waited, low, high)
	}

	var first s3Request
	waitFor(f.t, d.name+" contacts the server", func() bool {
		requests := f.log.of(d.name, f.began[k])
		if len(requests) > 0 {
			first = requests[0]
		}
		return len(requests) > 0
	})
	if dialed := first.dialed.Sub(f.began[k]); dialed < waited {
		f.t.Errorf("%s connected %v after its start, and says that it waited %v", d.name, dialed, waited)
	}
	return first.came.Sub(f.began[k])
}

// interval returns the median time between heartbeats of nodes, of at least n each.
func (f *fleet) interval(n int, nodes ...*daemon) time.Duration {
	f.t.Helper()
	var all []time.Duration
	for _, d := range nodes {
		waitFor(f.t, fmt.Sprintf("%s has sent %d heartbeats", d.name, n+1), func() bool {
			return len(f.log.heartbeats(d.name)) > n
		})
		beats := f.log.heartbeats(d.name)
		for i, b := range beats[1:] {
			all = append(all, b.came.Sub(beats[i].came))
		}
	}

	slices.Sort(all)
	f.t.Logf("times between heartbeats: least %v, median %v, longest %v", all[0], all[len(all)/2], all[len(all)-1])
	return all[len(all)/2]
}

// asComputed checks that a fleet sends about as many requests as package cost computes, from a time on.
func (f *fleet) asComputed(t *testing.T, from time.Time) {
	t.Helper()
	delay := watchMachine()
	const window = 20 * time.Second
	<-time.After(time.Until(from.Add(window)))
	config := regent.Fleet()
	want := cost.Fleet{
		Members: f.size, LeaseDuration: config.LeaseDuration, HeartbeatInterval: config.HeartbeatInterval,
		ElectionInterval: config.ElectionInterval, HealthInterval: 30 * time.Second,
	}.PerSecond()

	counted := f.log.kinds(from, from.Add(window), func(r s3Request) bool { return !strings.Contains(r.key, "!probe") })
	sum := 0
	for _, n := range counted {
		sum += n
	}
	got := float64(sum) / window.Seconds()
	t.Logf("%.2f requests a second, computed %.2f: %v, computed %+v", got, want.Total(), counted, want)
	if late := delay(); (got < want.Total()/2 || got > want.Total()*2) && late < time.Second {
		t.Errorf("%.2f requests a second, computed %.2f", got, want.Total())
	}
}

// smallest checks that the smallest ID holds a term. It accepts another one if the machine was so slow that the process
// of the smallest ID was late.
func (f *fleet) smallest(t *testing.T, term s3Request, late time.Duration) {
	t.Helper()
	want := f.alive()[0].name
	switch {
	case term.record.Holder == want:
	case late > 300*time.Millisecond || !f.prompt(5*time.Second):
		t.Skipf("%s leads, want %s: the machine is too slow to start %d processes at once, it was late by %v; "+
			"TestFleet of the library proves the same in virtual time", term.record.Holder, want, f.size, late)
	default:
		t.Errorf("%s leads, want %s", term.record.Holder, want)
	}
}

// steady checks that the median time between heartbeats is that of the configuration. Jitter would lengthen it; a
// machine that stalls does not change a median.
func (f *fleet) steady(t *testing.T, want time.Duration, n int, nodes ...*daemon) {
	t.Helper()
	delay := watchMachine()
	got := f.interval(n, nodes...)
	if late := delay(); (got < want*9/10 || got > want*11/10) && late < time.Second {
		t.Errorf("the median time between heartbeats is %v, want %v", got, want)
	}
}
