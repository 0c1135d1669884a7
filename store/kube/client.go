package kube

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// clients makes clients of Leases.
type clients struct {
	codecs serializer.CodecFactory
	params runtime.ParameterCodec // of the options of requests
}

// newClients returns what makes clients that know the types of coordination/v1 alone. The typed client of client-go
// knows every type of Kubernetes, which makes the binary 26 MB larger: see docs/DECISIONS.md.
func newClients() (clients, error) {
	s := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(s); err != nil {
		return clients{}, err
	}
	metav1.AddToGroupVersion(s, metav1.Unversioned) // for what an API server answers instead of a Lease
	return clients{codecs: serializer.NewCodecFactory(s), params: runtime.NewParameterCodec(s)}, nil
}

// connect returns a client with connections of its own, and what closes those that are idle.
func (k clients) connect(c *rest.Config) (rest.Interface, func(), error) {
	c.APIPath = "/apis"
	c.GroupVersion = &coordinationv1.SchemeGroupVersion
	c.NegotiatedSerializer = k.codecs.WithoutConversion()

	transport, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, nil, err
	}
	client, err := rest.RESTClientForConfigAndClient(c, transport)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { utilnet.CloseIdleConnectionsFor(transport.Transport) }, nil
}
