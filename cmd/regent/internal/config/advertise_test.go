package config

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestChooseAdvertise(t *testing.T) {
	network := func(route string, addrs ...string) Network {
		return Network{
			Addresses: func() ([]netip.Addr, error) {
				var all []netip.Addr
				for _, a := range addrs {
					all = append(all, netip.MustParseAddr(a))
				}
				return all, nil
			},
			Route: func() (netip.Addr, error) {
				if route == "" {
					return netip.Addr{}, errors.New("network is unreachable")
				}
				return netip.MustParseAddr(route), nil
			},
		}
	}
	for _, tt := range []struct {
		name    string
		args    string
		network Network
		want    string
		says    string // the warning, or the error if want is empty
	}{
		{"the_only_address_is_taken", "--listen 0.0.0.0:7468",
			network("", "127.0.0.1", "10.0.0.5", "fe80::1", "2001:db8::5"),
			"10.0.0.5:7468", "this node advertises 10.0.0.5, the only one"},
		{"an_address_of_version_6_if_there_is_no_other", "--listen [::]:7468",
			network("", "::1", "fe80::1", "2001:db8::5"),
			"[2001:db8::5]:7468", "this node advertises 2001:db8::5"},
		{"no_host_means_all_addresses", "--listen :7468", network("", "10.0.0.5"), "10.0.0.5:7468",
			"listen :7468 means all"},
		{"of_several_that_of_the_default_route", "--listen 0.0.0.0:7468", network("10.0.0.5", "172.17.0.1", "10.0.0.5"),
			"10.0.0.5:7468", "that of the default route; the others are 172.17.0.1"},
		{"several_and_no_route_are_refused", "--listen 0.0.0.0:7468", network("", "172.17.0.1", "10.0.0.5"),
			"", "listen 0.0.0.0:7468 means all addresses, and this machine has several: 10.0.0.5, 172.17.0.1"},
		{"a_route_that_is_none_of_them_is_refused", "--listen 0.0.0.0:7468",
			network("192.168.0.1", "172.17.0.1", "10.0.0.5"),
			"", `flag --listen: advertise "": advertise must be the host:port at which others reach this node`},
		{"no_address_is_refused", "--listen 0.0.0.0:7468", network("", "127.0.0.1", "::1"), "",
			"this machine has none that others can reach"},
		{"addresses_that_cannot_be_read_are_refused", "--listen 0.0.0.0:7468",
			Network{Addresses: func() ([]netip.Addr, error) {
				return nil, errors.New("no permission")
			}}, "", "cannot be read: no permission"},
		{"one_that_was_given_stays", "--listen 0.0.0.0:7468 --advertise h:1", network(""), "h:1", ""},
		{"a_listener_with_an_address_advertises_that", "--listen 127.0.0.1:7468", network(""), "127.0.0.1:7468", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Load(append(strings.Fields(tt.args), "--token", "t"), nil, nil)
			if err != nil {
				t.Fatal(err)
			}

			err = s.ChooseAdvertise(tt.network)
			var bad *Error
			switch {
			case tt.want == "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("%v", err)
			case tt.want != "" && (err != nil || s.Advertise != tt.want ||
				!strings.Contains(strings.Join(s.Warnings, "\n"), tt.says)):
				t.Errorf("%q, %v, %q", s.Advertise, err, s.Warnings)
			}
		})
	}
}
