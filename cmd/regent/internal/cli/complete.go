package cli

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

// completeTimeout is how long a shell waits for names.
const completeTimeout = time.Second

// namesOf returns the names of something that a cluster has.
type namesOf func(context.Context, cluster.Cluster) ([]string, error)

func electionNames(ctx context.Context, c cluster.Cluster) ([]string, error) {
	all, err := c.Elections(ctx)
	var names []string
	for _, e := range all.Elections {
		names = append(names, e.Name)
	}

	return names, err
}

func memberNames(ctx context.Context, c cluster.Cluster) ([]string, error) {
	all, err := c.Members(ctx)
	var names []string
	for _, m := range all.Members {
		names = append(names, m.ID)
	}

	return names, err
}

func memberAddresses(ctx context.Context, c cluster.Cluster) ([]string, error) {
	all, err := c.Members(ctx)
	var names []string
	for _, m := range all.Members {
		if m.Addr != "" {
			names = append(names, m.Addr+"\t"+m.ID)
		}
	}

	return names, err
}

func pollNames(ctx context.Context, c cluster.Cluster) ([]string, error) {
	all, err := c.Polls(ctx)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}

	return names, err
}

// complete returns a function that asks the cluster for names, with a short timeout. If there is no answer, nothing is
// completed. The command takes at most that many arguments; 0 for any number.
func (t *target) complete(names namesOf, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}

		ctx, cancel := context.WithTimeout(context.Background(), completeTimeout)
		defer cancel()

		quiet := *t.Env
		quiet.Errs = io.Discard
		asking := *t
		asking.Env = &quiet
		s, err := asking.open(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.cluster.Close()

		found, _ := names(ctx, s.cluster)
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// noNames completes nothing, not even files.
func noNames(context.Context, cluster.Cluster) ([]string, error) { return nil, nil }
