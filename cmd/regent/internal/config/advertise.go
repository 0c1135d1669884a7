package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/regentd/regent"
)

// Network returns the addresses of a machine.
type Network struct {
	Addresses func() ([]netip.Addr, error) // of all interfaces that are up
	Route     func() (netip.Addr, error)   // from which requests to other networks are sent
}

// ThisMachine returns the network of the machine that the process runs on.
func ThisMachine() Network { return Network{Addresses: interfaceAddresses, Route: routeAddress} }

// ChooseAdvertise sets the address that other nodes get, if listen means all addresses of the machine, such as 0.0.0.0,
// and advertise was not given. It takes the only address that others can reach; of several, the one of the default
// route. If there is none it returns an error. A warning says what was chosen.
func (s *Settings) ChooseAdvertise(network Network) error {
	host, port, err := splitAddress(s.Listen)
	if err != nil || !everywhere(host) || s.Given("advertise") {
		return nil
	}

	refuse := func(why string) error {
		return &Error{s.Origin("listen"), &regent.ConfigError{Key: "advertise", Value: quote("advertise", ""),
			Rule: "must be the host:port at which others reach this node: listen " + s.Listen +
				" means all addresses, and " + why}}
	}

	all, err := network.Addresses()
	if err != nil {
		return refuse("those of this machine cannot be read: " + err.Error())
	}

	reachable := reachableOf(all)
	if len(reachable) == 0 {
		return refuse("this machine has none that others can reach")
	}

	chosen := reachable[0]
	why := "the only one of this machine that others can reach"

	if len(reachable) > 1 {
		route, err := network.Route()
		if err != nil || !slices.Contains(reachable, route) {
			return refuse("this machine has several: " + list(reachable))
		}

		others := slices.DeleteFunc(reachable, func(a netip.Addr) bool { return a == route })
		chosen = route
		why = "that of the default route; the others are " + list(others)
	}

	s.Advertise = net.JoinHostPort(chosen.String(), fmt.Sprint(port))
	s.origins["advertise"] = origin{text: "address of this machine", follows: "listen"}
	s.Warnings = append(s.Warnings, fmt.Sprintf("advertise was not set, and listen %s means all addresses: "+
		"this node advertises %s, %s", s.Listen, chosen, why))

	return nil
}

// reachableOf returns the addresses at which other machines can reach this one: those of IPv4, or of IPv6 if there are
// none.
func reachableOf(all []netip.Addr) []netip.Addr {
	var four, six []netip.Addr
	for _, a := range all {
		a = a.Unmap().WithZone("")
		switch {
		case !a.IsGlobalUnicast():
		case a.Is4():
			four = append(four, a)
		default:
			six = append(six, a)
		}
	}

	if len(four) == 0 {
		four = six
	}
	slices.SortFunc(four, netip.Addr.Compare)

	return slices.Compact(four)
}

// list joins addresses.
func list(all []netip.Addr) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ", ")
}

// interfaceAddresses returns the addresses of all interfaces that are up.
func interfaceAddresses() ([]netip.Addr, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}

	var found []netip.Addr
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue // the interface is going away
		}

		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				found = append(found, p.Addr())
			}
		}
	}

	return found, nil
}

// routeAddress returns the address that the kernel would send from. Nothing is sent.
func routeAddress() (netip.Addr, error) {
	var last error
	for _, elsewhere := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} { // addresses for documentation
		conn, err := net.Dial("udp", elsewhere)
		if err != nil {
			last = err
			continue
		}

		local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		_ = conn.Close()
		return local, nil
	}

	return netip.Addr{}, last
}
