package cli

import (
	"context"
	"crypto/x509"
	"errors"

	"github.com/regentd/regent/cmd/regent/internal/cli/cluster"
)

// advice returns what to do about a cluster that does not answer.
func (s *session) advice(ctx context.Context, err error) string {
	asked, isNode := s.cluster.(*cluster.Node)
	if !isNode {
		return "Is the store running, and the address right? 'regent doctor --store …' checks it."
	}

	if text := certificateAdvice(err); text != "" {
		return text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		ctx, cancel := context.WithTimeout(ctx, peerTimeout)
		defer cancel()
		if _, err := asked.LocalStatus(ctx); err == nil {
			return "The node itself answers: its store may hang. 'regent status' shows what the node knows; a longer " +
				"--timeout gives the store more time."
		}
	}
	return "Is the node running there? Name another one with --addr or REGENT_ADDR, or ask the store itself with " +
		"--store."
}

// certificateAdvice returns what to do about a node whose certificate is refused; empty if that is not the reason.
func certificateAdvice(err error) string {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(err, &unknown):
		return "Name the file of the authority that signed the node's certificate with --tls-ca or REGENT_TLS_CA."
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "Give the node a certificate that is valid now, in the file of its tlsCert: it reads the file again " +
			"by itself."
	case errors.As(err, &name):
		return "Ask the node by a name or an address that its certificate has, with --addr or REGENT_ADDR."
	}
	return ""
}
