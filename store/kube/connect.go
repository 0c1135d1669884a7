package kube

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/regentd/regent/driver"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// unanswered is how long an API server may take to answer before the connections of the watches are given up too.
const unanswered = 500 * time.Millisecond

// manager is the name under which an API server notes who has written a field.
const manager = "regent"

// connect creates the clients and checks that an API server answers.
func (s *Store) connect(ctx context.Context, noProbe bool) error {
	c := s.config
	c.QPS = -1 // client-go would delay everything beyond five requests a second, heartbeats too
	c.UserAgent = "regent " + rest.DefaultKubernetesUserAgent()
	c.WarningHandler = rest.NoWarnings{}
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment // and client-go keeps no transport that other stores of the process share
	}

	if file := c.BearerTokenFile; file != "" {
		// client-go reads the file once a minute. This source also reads it after an answer that the token is void.
		c.Wrap(transport.ResettableTokenSourceWrapTransport(transport.NewCachedFileTokenSource(file)))
		c.BearerToken, c.BearerTokenFile = "", ""
	}

	// A request that was not answered closes its HTTP/1 connection, and the next one goes to another API server. An
	// HTTP/2 connection to a frozen server is kept for 45 seconds, in which every lease would expire.
	requests := rest.CopyConfig(c)
	requests.NextProtos = []string{"http/1.1"}
	clients, err := newClients()
	if err != nil {
		return s.explain(ctx, err)
	}
	s.clients = clients
	leases, hangUp, err := clients.connect(requests)
	if err != nil {
		return s.explain(ctx, driver.Refused(err))
	}
	s.leases, s.hangUp = leases, hangUp

	if err := s.notifier.init(s); err != nil {
		return s.explain(ctx, driver.Refused(err))
	}
	return s.probe(ctx, noProbe)
}

// begin returns a context that also ends with Close, or an error if the store is closed.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closed.Load() {
		return nil, nil, driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}

	within, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	end := func() {
		stop()
		cancel()
	}
	return within, end, nil
}

// ask sends a request once, and returns what the API server has answered. client-go would send it again after 429 and
// after a server error with Retry-After: if the first one was applied, the second one conflicts with it, and an applied
// swap would be reported as a conflict.
func (s *Store) ask(ctx context.Context, verb string, r *rest.Request, into runtime.Object) error {
	within, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()

	s.sent.Add(verb)
	began := time.Now()
	r = r.Namespace(s.addr.namespace).Resource("leases").MaxRetries(0)
	result := r.Do(within)
	err = result.Error()
	if err == nil && into != nil {
		err = result.Into(into)
	}

	if away(err) && (ctx.Err() == nil || time.Since(began) >= unanswered) {
		s.notifier.unanswered()
	}
	return err
}

// probe checks that an API server answers and that this user may do what is needed. It writes nothing: what would is a
// dry run.
func (s *Store) probe(ctx context.Context, noProbe bool) error {
	list := &metav1.ListOptions{Limit: 1, LabelSelector: s.addr.selector("")}
	err := s.ask(ctx, "list", s.leases.Get().VersionedParams(list, s.clients.params), nil)
	if err != nil || noProbe {
		return s.explained(ctx, err)
	}

	dry := []string{metav1.DryRunAll}
	name := s.addr.leaseName("regent/probe")
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.addr.namespace}}
	create := &metav1.CreateOptions{DryRun: dry, FieldManager: manager}
	err = s.ask(ctx, "create", s.leases.Post().VersionedParams(create, s.clients.params).Body(lease), nil)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return s.explained(ctx, err)
	}

	patch := &metav1.PatchOptions{DryRun: dry, FieldManager: manager}
	err = s.ask(ctx, "patch", s.leases.Patch(types.JSONPatchType).Name(name).
		VersionedParams(patch, s.clients.params).Body([]byte(`[]`)), nil)
	if err != nil && !apierrors.IsNotFound(err) {
		return s.explained(ctx, err)
	}

	err = s.ask(ctx, "delete", s.leases.Delete().Name(name).Body(&metav1.DeleteOptions{DryRun: dry}), nil)
	if apierrors.IsForbidden(err) {
		s.warn(fmt.Sprintf("%s: this user may not delete leases: those of members that never come back stay: %v", s,
			err))
	} else if err != nil && !apierrors.IsNotFound(err) {
		return s.explained(ctx, err)
	}
	return nil
}

// explained is explain for an error that may be nil.
func (s *Store) explained(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return s.explain(ctx, err)
}

// selector returns the labels of the registers whose names begin with a prefix, and maybe of others.
func (a *address) selector(prefix string) string {
	labels := prefixKey + "=" + a.prefix
	if kindOf(prefix) == kindMember {
		labels += "," + kindKey + "=" + kindMember
	}
	return labels
}
