package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
	"github.com/regentd/regent/cmd/regent/internal/cli/doctor"
	"github.com/regentd/regent/cmd/regent/internal/cli/output"
	"github.com/regentd/regent/cmd/regent/internal/config"
	"github.com/regentd/regent/cmd/regent/internal/plain"
	"github.com/regentd/regent/driver"
)

// maxSkew is how far the wall clocks of two machines may be apart without a warning.
const maxSkew = 2 * time.Second

func doctorCmd(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [flags]",
		Short: "check the store, this machine and the configuration, and compute the longest takeover",
		Long: `Checks the configuration as 'regent serve' would use it, the store (whether it answers, how fast,
whether its conditional writes are atomic and its notifications arrive, and what its driver knows of
persistence, replication, eviction and permissions), this machine (clocks, open files, what the
reaper needs), and, if a node answers, its members. From what it measures it computes how long nobody
leads after a crash, at the longest; on S3 also requests per second and dollars per month.

It writes one scratch register of the store, which no election uses.

Exit codes: 0 nothing is wrong, though there may be warnings; 1 something is wrong; 64 the command
line makes no sense; 69 the store does not answer; 78 the configuration must be changed first.`,
		Example: `  regent doctor --config regent.yaml
  regent doctor --store redis://db:6379
  regent doctor --store s3://bucket/prefix --members 50
  regent doctor --store sqlite:/var/lib/regent.db -o json`,
		GroupID:           GroupSetUp,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	t := &target{Env: env, cmd: cmd, format: output.Table}
	flags := cmd.Flags()
	flags.StringVar(&t.addr, "addr", "", "the `host:port` or URL of a node to check too [default "+defaultAddr+
		", or listen of the configuration] [variable "+addrVariable+"]")
	flags.VarP(&t.format, "output", "o", "the `format`: table, json or yaml")
	timeout := flags.Duration("timeout", time.Minute, "how long the checks may take, as a `duration`")
	members := flags.Int("members", 0,
		"compute the cost on S3 for this `number` of members [default those that the store has]")
	t.source = config.Flags(flags)

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := t.source.Load(env.Environ, config.ReadFile)
		if err != nil {
			return err
		}
		if *members < 0 || cmd.Flags().Changed("members") && *members == 0 {
			return UsageError(cmd, "--members %d: must be at least 1", *members)
		}

		ctx, cancel := context.WithTimeout(cmd.Context(), *timeout)
		defer cancel()

		e := &examination{target: t, settings: settings, report: &doctor.Report{Healthy: true}, members: *members}
		done := output.Progress(env.Errs, "checking")
		reached, err := e.run(ctx)
		done()
		if err != nil {
			return err
		}

		return e.print(reached)
	}

	return cmd
}

// examination is one run of 'regent doctor'.
type examination struct {
	*target
	settings *config.Settings
	report   *doctor.Report
	members  int    // for which the cost is computed; 0 for those that the store has
	lease    string // whose lease and takeover delay are used, if not those of the configuration here
}

// run makes all checks. It reports whether the store was reached.
func (x *examination) run(ctx context.Context) (reached bool, err error) {
	r := x.report
	for _, w := range x.settings.Warnings {
		r.Add("configuration", doctor.Warning, "", "%s", w)
	}
	if len(x.settings.Warnings) == 0 {
		r.Add("configuration", doctor.OK, "", "it breaks no rule; profile %s", x.settings.Profile)
	}

	node, err := x.openNode(x.settings)
	if err != nil {
		return false, err
	}
	status, silent := x.askNode(ctx, node)

	address := x.settings.Store
	nodes := silent == nil && !x.settings.Given("store") // the store of the nodes is the one to check
	if nodes {
		address = status.Store.Address
	}

	r.Store = x.Location(address)
	if silent == nil && status.Store.Address == r.Store {
		x.adopt(ctx, node, status)
	}
	if nodes && config.Hides(address) {
		r.Add("store", doctor.Warning, "name it as the nodes do, with --store, REGENT_STORE or --config",
			"it was not checked: %s does not tell the password of its store", status.Node)
		reached = true
	} else {
		reached = x.checkStore(ctx, address)
	}
	r.CheckMachine()
	x.checkNode(ctx, node, status, silent)
	x.addTakeover()

	return reached, nil
}

// askNode asks a node for its state.
func (x *examination) askNode(ctx context.Context, node *cluster.Node) (cluster.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()

	return node.Status(ctx)
}

// checkStore opens the store with all checks of its driver, measures it, and lets writers race. It reports whether the
// store was reached.
func (x *examination) checkStore(ctx context.Context, address string) bool {
	r := x.report
	if strings.HasPrefix(address, "memory:") {
		r.Add("store", doctor.Warning,
			"use sqlite:, redis://, postgres://, etcd://, nats://, kube:// or s3:// for more than one process",
			"store memory: is for one process alone, and forgets everything when it ends")
		return true
	}

	var warnings []string
	began := time.Now()
	store, err := x.OpenChecked(ctx, address, func(w string) { warnings = append(warnings, w) })
	err = plain.Error(err)
	switch {
	case errors.Is(err, ErrUnused):
		r.Add("store", doctor.Warning, "start a node, which creates it, and check again", "%v", err)
		return true
	case errors.Is(err, driver.ErrRefused):
		r.Add("store", doctor.Wrong,
			doctor.Remedy(err, "correct the address, or change the store as the text says"), "%v", err)
		return true
	case errors.Is(err, driver.ErrCredentials):
		r.Add("store", doctor.Wrong, "give this user, and the nodes, credentials as the text says", "%v", err)
		return true
	case driver.ProblemOf(err) == driver.ProblemReadOnly:
		r.Add("store", doctor.Wrong, doctor.Remedy(err, ""), "it accepts no writes: it is a replica, or read-only: %v",
			err)
		return true
	case err != nil && driver.ProblemOf(err) != "":
		r.Add("store", doctor.Wrong, doctor.Remedy(err, ""), "%v", err)
		return true
	case err != nil:
		r.Add("store", doctor.Wrong, "see that the store runs, and that its address is right",
			"it cannot be reached: %v", err)
		return false
	}
	defer store.Close()

	scheme := schemeOf(address)
	r.Add("store", doctor.OK, "", "opened in %s", output.Duration(time.Since(began)))
	r.AddWarnings(warnings, scheme)
	x.adoptLongest(ctx, store)
	if err := r.CheckStore(ctx, store, x.settings.Regent); err != nil {
		return driver.ProblemOf(err) != "" // it answers, and says why it takes no writes
	}

	if scheme == "redis" { // its driver has checked what the user may do
		_ = doctor.Remove(context.WithoutCancel(ctx), store)
	} else {
		r.CheckPermissions(ctx, store)
	}
	if scheme == "s3" {
		r.AddCost(x.fleet(ctx, store), x.settings.Regent)
	}
	return true
}

// schemeOf returns the kind of a store.
func schemeOf(address string) string {
	scheme, _, _ := strings.Cut(address, ":")
	switch scheme {
	case "rediss":
		return "redis"
	case "postgresql":
		return "postgres"
	}
	return scheme
}

// fleet returns for how many members the cost is computed: as many as the command line says, or the store has, or one.
func (x *examination) fleet(ctx context.Context, store driver.Store) int {
	if x.members > 0 {
		return x.members
	}

	n := 0
	for _, err := range store.List(ctx, driver.MemberPrefix) {
		if err == nil {
			n++
		}
	}
	return max(n, 1)
}

// addTakeover adds the longest takeover in words.
func (x *examination) addTakeover() {
	t := x.report.Takeover
	if t == nil {
		return
	}

	ms := func(v float64) string { return output.Duration(time.Duration(v * float64(time.Millisecond))) }
	x.report.Add("takeover", doctor.OK, "",
		"after a shutdown, a handoff or a crash that the reaper sees: %.1f ms for the store, as fast as it is now, "+
			"and what the processes take, which on a busy machine is tens of milliseconds. After the death of a host: "+
			"at most about %s, of which %s are the lease and %s the takeover delay%s",
		t.ReleasedMs, ms(t.SilentMs), ms(t.LeaseMs), ms(t.DelayMs), x.lease)
}

// print prints the report and returns the exit code.
func (x *examination) print(reached bool) error {
	p := x.printer()
	r := x.report
	if x.format != output.Table {
		if err := p.Data(r); err != nil {
			return err
		}
	} else {
		p.Printf("store %s\n", output.Printable(r.Store))
		x.printChecks(p)
	}

	switch {
	case !reached:
		return &ExitError{ExitUnreachable, errors.New("the store does not answer: see the checks marked wrong")}
	case !r.Healthy:
		return &ExitError{ExitFailure, errors.New("something is wrong: see the checks marked so")}
	}
	return nil
}

func (x *examination) printChecks(p *output.Printer) {
	tones := map[doctor.Verdict]output.Tone{
		doctor.OK: output.Good, doctor.Warning: output.Warning, doctor.Wrong: output.Bad, doctor.Skipped: output.Faint,
	}
	for _, c := range x.report.Checks {
		p.Printf("%s  %s", p.Paint(fmt.Sprintf("%-7s", c.Verdict), tones[c.Verdict]), fmt.Sprintf("%-14s", c.Name))
		lines := config.Wrap(output.Printable(c.Text), helpWidth-25)
		if c.Advice != "" {
			lines = append(lines, config.Wrap("→ "+c.Advice, helpWidth-25)...)
		}
		for i, line := range lines {
			if i > 0 {
				p.Printf("%25s", "")
			} else {
				p.Printf("  ")
			}
			p.Printf("%s\n", line)
		}
	}
}
