package check_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/regentd/regent/cmd/regent/internal/check"
)

func TestICMP(t *testing.T) {
	settles(t)
	if !slices.Contains(new(check.Checker).Kinds(), "icmp") {
		_, err := new(check.Checker).Run(t.Context(), "icmp", "127.0.0.1", nil)
		t.Skip("not permitted here:", err)
	}

	for _, c := range []struct{ name, target, family, address string }{
		{"an_IPv4_address", "127.0.0.1", "any", "127.0.0.1"},
		{"an_IPv6_address", "::1", "any", "::1"},
		{"an_IPv6_address_with_its_zone", "::1%lo", "6", "::1%lo"},
		{"a_name", "localhost", "4", "127.0.0.1"},
	} {
		t.Run(c.name+"_answers", func(t *testing.T) {
			if _, err := os.Stat("/proc/net/if_inet6"); err != nil && strings.Contains(c.target, ":") {
				t.Skip("no IPv6 here")
			}
			o := run(t, "icmp", c.target, "family", c.family)
			found(t, o, true, "answer from "+c.address)

			if o.Latency > 5*time.Second || o.Detail["lost"] > "1" {
				t.Errorf("%+v", o)
			}
		})
	}

	t.Run("many_at_once_do_not_take_each_others_answers", func(t *testing.T) {
		done := make(chan error)
		for range 50 {
			go func() {
				o, err := checker().Run(t.Context(), "icmp", "127.0.0.1", nil)
				if err == nil && !o.OK {
					err = errors.New(o.Message)
				}
				done <- err
			}()
		}

		for range 50 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("a_zone_that_there_is_not", func(t *testing.T) {
		found(t, run(t, "icmp", "fe80::1%nowhere"), false, "zone nowhere")
	})
}

// TestICMPInNamespaces runs a process of this test in network namespaces with different permissions and answers.
const namespaceVar = "REGENT_TEST_NAMESPACE"

func TestICMPInNamespaces(t *testing.T) {
	for _, c := range []struct{ name, how, want string }{
		{"groups_in_the_range_need_no_privilege", "group", "127.0.0.1 true ::1 true"},
		{"the_capability_does_as_well", "raw", "127.0.0.1 true ::1 true"},
		{"with_neither_it_says_what_is_missing", "none", "127.0.0.1 not permitted ::1 not permitted"},
		{"a_host_that_is_silent_is_asked_each_second", "silent",
			"127.0.0.1 no answer in time, more than one lost 192.0.2.1 connect: network is unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), namespaceVar+"="+c.how)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}

			if os.Getuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
			}

			out, err := cmd.CombinedOutput()
			if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) ||
				strings.Contains(string(out), "cannot prepare") {
				t.Skipf("no namespaces here: %v %s", err, out)
			}
			if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
				t.Errorf("%v: got %s", err, got)
			}
		})
	}
}

// inNamespace runs the process in the namespace.
func inNamespace() bool {
	how := os.Getenv(namespaceVar)
	if how == "" {
		return false
	}

	if err := prepare(how); err != nil {
		fmt.Println("cannot prepare:", err)
		return true
	}

	targets, limit := []string{"127.0.0.1", "::1"}, 5*time.Second
	if how == "silent" {
		targets[1], limit = "192.0.2.1", 4500*time.Millisecond
	}

	for _, target := range targets {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		o, err := new(check.Checker).Run(ctx, "icmp", target, nil)
		cancel()

		permitted := slices.Contains(new(check.Checker).Kinds(), "icmp")
		switch {
		case errors.Is(err, check.ErrNotPermitted) && strings.Contains(err.Error(), "ping_group_range") &&
			strings.Contains(err.Error(), "CAP_NET_RAW") && !permitted:
			fmt.Print(target, " not permitted ")
		case err != nil || !permitted:
			fmt.Print(target, " ", err, " ")
		case o.OK:
			fmt.Print(target, " true ")
		case o.Detail["lost"] > "1" && len(o.Detail["lost"]) == 1: // five, unless this process stalls
			fmt.Print(target, " ", o.Message, ", more than one lost ")
		default:
			fmt.Print(target, " ", o.Message, " ")
		}
	}

	return true
}

// prepare brings the loopback up, and leaves the process one way to send requests.
func prepare(how string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)

	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}

	ifreq.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq); err != nil {
		return err
	}

	allowed := "1 0" // nobody
	if how == "group" {
		allowed = fmt.Sprintf("%d %d", os.Getgid(), os.Getgid())
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(allowed), 0); err != nil {
		return err
	}
	if how == "silent" {
		return os.WriteFile("/proc/sys/net/ipv4/icmp_echo_ignore_all", []byte("1"), 0)
	}

	if how == "raw" || os.Getenv(namespaceVar+"_DROPPED") != "" {
		return nil
	}

	return drop()
}

// drop executes this program again without the capability: in this way every thread loses it.
func drop() error {
	runtime.LockOSThread() // the thread that executes must be the one that dropped it
	if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_NET_RAW, 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", os.Args, append(os.Environ(), namespaceVar+"_DROPPED=1"))
}
