package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/regentd/regent"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// The label that a pod has, and the annotations that guard it.
const (
	roleKey = "regent.dev/role"
	// epochKey is the highest epoch of which the pod knows. Every change of the role compares it.
	epochKey = "regent.dev/epoch"
	// electionKey says to which election the label belongs: others may have pods in the same namespace.
	electionKey = "regent.dev/election"
)

const (
	roleLeader  = "leader"
	roleStandby = "standby"
)

// PodLabel keeps the label regent.dev/role on a pod: leader while its member leads, standby afterwards. A pod
// that has never led may have none. A Service that selects regent.dev/role: leader reaches the leader.
//
// Before a pod becomes leader, all other pods of the election have become standby, and carry the new epoch. A request
// of a former leader that arrives late compares the epoch that its pod had, and is refused.
type PodLabel struct {
	Store    *Store // gives the namespace and the connection
	Pod      string // this process is in it
	Election string
	Within   time.Duration // how long the label may take to go when a term ends; a second if it is 0
}

// pod is what is needed of one.
type pod struct {
	Metadata struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// epoch returns the highest epoch of which a pod knows, and whether it says so.
func (p pod) epoch() (uint64, bool) {
	n, err := strconv.ParseUint(p.Metadata.Annotations[epochKey], 10, 64)
	return n, err == nil
}

// Lead makes the pod the leader's in a term. It returns [regent.ErrNotLeader] if another pod knows of a later term.
func (l PodLabel) Lead(ctx context.Context, epoch uint64) error {
	for {
		moved, err := l.lead(ctx, epoch)
		if err != nil {
			return fmt.Errorf("label pod %s as leader at epoch %d: %w", l.Pod, epoch, err)
		}
		if !moved {
			return nil
		}
	}
}

// lead does what Lead does. moved says that a pod has changed meanwhile, so that it has to be done again.
func (l PodLabel) lead(ctx context.Context, epoch uint64) (moved bool, err error) {
	self, err := l.own(ctx)
	if err != nil {
		return false, err
	}

	others, err := l.pods(ctx)
	if err != nil {
		return false, err
	}
	for _, p := range others {
		knows, _ := p.epoch()
		switch {
		case knows > epoch:
			return false, fmt.Errorf("pod %s knows of epoch %d: %w", p.Metadata.Name, knows, regent.ErrNotLeader)
		case p.Metadata.Name == l.Pod || knows == epoch:
			continue
		}
		if moved, err := l.set(ctx, p, roleStandby, epoch); moved || err != nil {
			return moved, err
		}
	}

	if knows, _ := self.epoch(); knows > epoch {
		return false, fmt.Errorf("it knows of epoch %d: %w", knows, regent.ErrNotLeader)
	}
	return l.set(ctx, self, roleLeader, epoch)
}

// Standby makes the pod that of a standby after a term. It does nothing if the pod knows of a later term.
func (l PodLabel) Standby(ctx context.Context, epoch uint64) error {
	for {
		self, err := l.own(ctx)
		moved := false
		if knows, _ := self.epoch(); err == nil && knows <= epoch {
			moved, err = l.set(ctx, self, roleStandby, epoch)
		}
		if err != nil {
			return fmt.Errorf("label pod %s as standby after epoch %d: %w", l.Pod, epoch, err)
		}
		if !moved {
			return nil
		}
	}
}

// own returns the pod of this process. One that has no epoch yet gets it first: from then on every leader finds it.
func (l PodLabel) own(ctx context.Context) (p pod, err error) {
	for {
		if err := l.request(ctx, "get", l.at(l.Store.leases.Get(), l.Pod), &p); err != nil {
			return pod{}, err
		}
		if _, ok := p.epoch(); ok && p.Metadata.Annotations[electionKey] == l.key() {
			return p, nil
		}

		body := []operation{{"test", "/metadata/resourceVersion", p.Metadata.ResourceVersion}}
		if p.Metadata.Annotations == nil {
			body = append(body, operation{"add", "/metadata/annotations", struct{}{}})
		}
		if p.Metadata.Labels == nil {
			body = append(body, operation{"add", "/metadata/labels", struct{}{}})
		}
		body = append(body, operation{"add", annotationPath(electionKey), l.key()},
			operation{"add", annotationPath(epochKey), "0"}, operation{"add", rolePath(), roleStandby})
		if _, err := l.patch(ctx, l.Pod, body); err != nil {
			return pod{}, err
		}
	}
}

// pods returns the pods of the election.
func (l PodLabel) pods(ctx context.Context) (all []pod, err error) {
	var list struct{ Items []pod }
	r := l.at(l.Store.leases.Get(), "").Param("labelSelector", roleKey)
	if err := l.request(ctx, "list", r, &list); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if p.Metadata.Annotations[electionKey] == l.key() {
			all = append(all, p)
		}
	}
	return all, nil
}

// set changes the role of a pod that still knows of the same epoch.
func (l PodLabel) set(ctx context.Context, p pod, role string, epoch uint64) (moved bool, err error) {
	return l.patch(ctx, p.Metadata.Name, []operation{
		{"test", annotationPath(epochKey), p.Metadata.Annotations[epochKey]},
		{"add", annotationPath(epochKey), strconv.FormatUint(epoch, 10)},
		{"add", rolePath(), role},
	})
}

func rolePath() string { return "/metadata/labels/" + escapePointer(roleKey) }

// patch changes a pod. moved says that it was not changed, because it is not what the patch expects, or is gone.
func (l PodLabel) patch(ctx context.Context, name string, body []operation) (moved bool, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	r := l.at(l.Store.leases.Patch(types.JSONPatchType), name).Param("fieldManager", manager).Body(text)
	err = l.request(ctx, "patch", r, nil)
	if refusedSwap(err) || apierrors.IsNotFound(err) && name != l.Pod {
		return true, nil
	}
	return false, err
}

// key names the election: several stores may be in the namespace.
func (l PodLabel) key() string { return l.Store.addr.prefix + "/" + l.Election }

// at completes a request with the path of a pod, or of all.
func (l PodLabel) at(r *rest.Request, name string) *rest.Request {
	path := []string{"/api/v1/namespaces", l.Store.addr.namespace, "pods"}
	if name != "" {
		path = append(path, url.PathEscape(name))
	}
	return r.AbsPath(path...)
}

// request sends a request, and reads the metadata of what is answered.
func (l PodLabel) request(ctx context.Context, verb string, r *rest.Request, into any) error {
	s := l.Store
	within, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	s.sent.Add(verb)
	kind := "PartialObjectMetadata"
	if verb == "list" {
		kind += "List"
	}
	result := r.MaxRetries(0).SetHeader("Accept", "application/json;as="+kind+";g=meta.k8s.io;v=v1").Do(within)
	text, _ := result.Raw()
	err = result.Error()
	switch {
	case apierrors.IsForbidden(err):
		err = fmt.Errorf("the user needs get, list and patch on pods of namespace %s; deploy/kubernetes-rbac.yaml has "+
			"the role: %w", s.addr.namespace, err)
	case err == nil && into != nil:
		err = json.Unmarshal(text, into)
	}
	return err
}

// Duty returns the duty that keeps the label while its member leads. Make it the first duty of its election: the first
// one is stopped last, so the label goes when all work has ended, and before the election is released.
func (l PodLabel) Duty() regent.Duty {
	return regent.Duty{Election: l.Election, Name: "pod-label", Run: func(ctx context.Context, t regent.Term) error {
		if err := l.Lead(ctx, t.Epoch); err != nil {
			return l.failed(err)
		}

		<-ctx.Done()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(l.Within, time.Second))
		defer cancel()
		if err := l.Standby(after, t.Epoch); err != nil {
			return l.failed(err)
		}
		return nil
	}}
}

// failed marks an error: another leader would have the same API server.
func (l PodLabel) failed(err error) error {
	if errors.Is(err, regent.ErrNotLeader) {
		return err
	}
	return fmt.Errorf("%w: %w", regent.ErrStore, err)
}
