package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
)

func TestAdvertise(t *testing.T) {
	t.Run("a_node_that_listens_everywhere_advertises_a_real_address_or_does_not_start", func(t *testing.T) {
		for _, listen := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
			args := []string{"serve", "--node", "a", "--store", "memory:", "--listen", listen, "--token", "t",
				"--data-dir", t.TempDir()}
			d := launch(t, "a", command(t, nil, args...), nil)
			advertised := d.await(`msg=serving .* advertise=(\S+)|advertise must be the host:port`)
			if strings.Contains(advertised, "must be") { // a machine without any address
				<-d.gone
				if code := d.cmd.ProcessState.ExitCode(); code != exitConfig {
					t.Errorf("%s: exit code %d", listen, code)
				}
				continue
			}

			host, port, err := net.SplitHostPort(advertised)
			if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsUnspecified() || port == "0" {
				t.Errorf("%s: it advertises %q", listen, advertised)
			}
			if len(d.said("this node advertises "+host)) != 1 {
				t.Errorf("%s: it does not say what was chosen", listen)
			}

			d.signal(syscall.SIGHUP)
			d.await("configuration reloaded")

			if said := d.said("take effect at a restart"); len(said) != 0 {
				t.Errorf("%s: a reload says that something has changed: %v", listen, said)
			}
		}
	})
}
