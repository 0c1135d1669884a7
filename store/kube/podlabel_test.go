package kube

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/regentd/regent"
	"github.com/regentd/regent/internal/kubetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// createPods creates pods that no node runs.
func createPods(t *testing.T, s *kubetest.Server, namespace string, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := s.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods", "",
			"apiVersion: v1\nkind: Pod\nmetadata: {name: "+name+"}\nspec: {containers: [{name: a, image: none}]}\n")
		if err != nil {
			t.Fatal(err)
		}
	}
}

// leaders returns the pods that have the label of a leader.
func leaders(t *testing.T, l PodLabel) (names []string) {
	t.Helper()
	all, err := l.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.Metadata.Labels[roleKey] == roleLeader {
			names = append(names, p.Metadata.Name)
		}
	}
	return names
}

func TestPodLabel(t *testing.T) {
	t.Parallel()
	srv := server(t)
	addr := fresh(t, srv)
	grant(t, srv, namespaceOf(addr), "regent", role(t))
	s := openAs(t, srv, addr, "regent", Options{}) // with what deploy/kubernetes-rbac.yaml grants
	createPods(t, srv, namespaceOf(addr), "a", "b", "other")
	a := PodLabel{Store: s, Pod: "a", Election: election}
	b := PodLabel{Store: s, Pod: "b", Election: election}
	other := PodLabel{Store: s, Pod: "other", Election: "another"}
	lead := func(l PodLabel, epoch uint64, want error) {
		t.Helper()
		if err := l.Lead(t.Context(), epoch); !errors.Is(err, want) {
			t.Fatalf("%s leads at epoch %d: %v, want %v", l.Pod, epoch, err, want)
		}
	}
	labelled := func(l PodLabel, want ...string) {
		t.Helper()
		if got := leaders(t, l); !slices.Equal(got, want) {
			t.Errorf("%q have the label of a leader, want %q", got, want)
		}
	}

	lead(other, 9, nil)
	lead(a, 1, nil)
	labelled(a, "a")
	before, err := a.own(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	lead(b, 2, nil) // the process of a was killed: nobody has removed its label
	labelled(a, "b")
	labelled(other, "other")

	if moved, err := a.set(t.Context(), before, roleLeader, 1); !moved || err != nil {
		t.Errorf("a request of the term before, which arrives late, was carried out: %v, %v", moved, err)
	}
	if err := a.Standby(t.Context(), 1); err != nil {
		t.Error(err)
	}
	lead(a, 1, regent.ErrNotLeader)
	labelled(a, "b")

	if err := b.Standby(t.Context(), 2); err != nil {
		t.Error(err)
	}
	labelled(a)
	lead(a, 3, nil)
	if err := b.Standby(t.Context(), 2); err != nil {
		t.Error(err)
	}
	labelled(a, "a")

	createPods(t, srv, namespaceOf(addr), "late")
	late := PodLabel{Store: s, Pod: "late", Election: election}
	lead(late, 2, regent.ErrNotLeader)
	lead(late, 4, nil)
	labelled(a, "late")
	if err := (PodLabel{Store: s, Pod: "none", Election: election}).Lead(t.Context(), 9); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is not there leads: %v", err)
	}
}

// TestPodLabelOfMembers runs members whose duties are the label and work. No two have the label at once, and a member
// that leaves has none.
func TestPodLabelOfMembers(t *testing.T) {
	t.Parallel()
	srv := server(t)
	addr := fresh(t, srv)
	createPods(t, srv, namespaceOf(addr), "a", "b")
	c := newCandidates(t)
	both := map[string]PodLabel{}
	for _, id := range []string{"a", "b"} {
		both[id] = PodLabel{Store: open(t, addr), Pod: id, Election: election, Within: within}
		c.join(id, open(t, addr), quick(), both[id].Duty())
		eventually(t, "a leads, with its label", func() bool {
			return slices.Equal(leaders(t, both["a"]), []string{"a"})
		})
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := make(chan int)
	go func() {
		most := 0
		for ctx.Err() == nil {
			all, err := both["a"].pods(ctx)
			n := 0
			for _, p := range all {
				if p.Metadata.Labels[roleKey] == roleLeader {
					n++
				}
			}
			if err == nil {
				most = max(most, n)
			}
		}
		watched <- most
	}()

	c.leave("a")
	eventually(t, "b leads, with its label", func() bool { return slices.Equal(leaders(t, both["b"]), []string{"b"}) })
	cancel()
	if most := <-watched; most > 1 {
		t.Errorf("%d pods had the label at once", most)
	}

	c.leave("b") // nobody takes over, who would remove the label
	if left := leaders(t, both["b"]); len(left) > 0 {
		t.Errorf("%q have the label after the last member has left", left)
	}
}
