package kube

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/regentd/regent"
	"github.com/regentd/regent/driver"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// address is a parsed address.
type address struct {
	namespace  string
	prefix     string // of the names of all Leases, without the dot that follows; may be empty
	kubeconfig string // a file; empty for the pod's own account, or the files that kubectl reads
	context    string // of the kubeconfig; empty for its current one
}

// errUnreadable shows nothing of the address: somebody may have put a token into it.
var errUnreadable = errors.New("the address must be kube://namespace?key=value, without user, password, port and " +
	"path; credentials come from a kubeconfig or from the pod")

func parseAddress(addr string) (*address, error) {
	if !strings.HasPrefix(addr, "kube://") {
		return nil, errors.New("the address must begin with kube://")
	}
	u, err := url.Parse(addr)
	if err != nil || u.User != nil || u.Port() != "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return nil, errUnreadable
	}

	a := &address{namespace: u.Host}
	if wrong := validation.IsDNS1123Label(a.namespace); len(wrong) > 0 {
		return nil, &regent.ConfigError{Key: "namespace", Value: strconv.Quote(a.namespace),
			Rule: "must be the name of a namespace: at most 63 of a-z, 0-9 and -, as in kube://my-namespace"}
	}
	return a, errors.Join(a.setQuery(u.RawQuery), a.validate())
}

func (a *address) setQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errUnreadable
	}

	keys := map[string]*string{"kubeconfig": &a.kubeconfig, "context": &a.context, "prefix": &a.prefix}
	for key, all := range values {
		switch {
		case keys[key] == nil:
			return &regent.ConfigError{Key: key, Value: "***",
				Rule: "is not known: the keys are kubeconfig, context, prefix"}
		case len(all) != 1 || all[0] == "":
			return &regent.ConfigError{Key: key, Value: strconv.Quote(strings.Join(all, ",")),
				Rule: "must be given once, and not be empty"}
		}
		*keys[key] = all[0]
	}
	return nil
}

func (a *address) validate() error {
	if a.prefix != "" && (len(validation.IsDNS1123Label(a.prefix)) > 0 || isEscape(a.prefix)) {
		return &regent.ConfigError{Key: "prefix", Value: strconv.Quote(a.prefix),
			Rule: "must be at most 63 of a-z, 0-9 and -, and must not be x and hexadecimal digits"}
	}
	return nil
}

// config returns how to reach the API server: as given, from the kubeconfig that the address names, as a pod, or as
// kubectl does.
func (a *address) config(given *rest.Config) (*rest.Config, error) {
	if given != nil {
		return rest.CopyConfig(given), nil
	}

	if a.kubeconfig == "" && a.context == "" {
		config, err := rest.InClusterConfig()
		if err == nil || !errors.Is(err, rest.ErrNotInCluster) {
			return config, wrap("the service account of this pod", err)
		}
	}

	if a.kubeconfig != "" { // client-go takes an empty file for none, and would use the service account of the pod
		found, err := clientcmd.LoadFromFile(a.kubeconfig)
		if err != nil {
			return nil, wrap("kubeconfig", err)
		}
		if api.IsConfigEmpty(found) {
			return nil, &regent.ConfigError{Key: "kubeconfig", Value: strconv.Quote(a.kubeconfig),
				Rule: "must be a file with a cluster, a user and a context; it is empty"}
		}
	}

	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	rules.WarnIfAllMissing = false
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no kubeconfig, and this process is in no pod: set KUBECONFIG, or the key kubeconfig "+
			"of the address: %w", err)
	}
	return config, wrap("kubeconfig", err)
}

// wrap says which configuration an error is about.
func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// String returns the namespace and the prefix: what two addresses of one store have in common.
func (a *address) String() string {
	text := "kube://" + a.namespace
	if a.prefix != "" {
		text += "?prefix=" + a.prefix
	}
	return text
}

// Validate returns what is wrong with an address, without connecting. The text is that of Open.
func Validate(addr string) error {
	a, err := parseAddress(addr)
	if err == nil {
		_, err = a.config(nil)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", Redact(addr), driver.Refused(err))
	}
	return nil
}

// Redact returns the parts of an address that cannot be secret.
func Redact(addr string) string {
	rest, ok := strings.CutPrefix(addr, "kube://")
	if !ok {
		return "kube://…"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	rest, _, _ = strings.Cut(rest, "?")
	return "kube://" + rest
}
