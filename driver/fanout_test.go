package driver_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/regentd/regent/driver"
)

func TestFanout(t *testing.T) {
	var f driver.Fanout[string]
	matching := func(name string) string { return fmt.Sprint(slices.Sorted(f.Matching(name))) }
	check := func(name, want string) {
		t.Helper()
		if got := matching(name); got != want {
			t.Errorf("%q matches %s, want %s", name, got, want)
		}
	}

	if !f.Empty() || f.Remove("a", "1") {
		t.Error("a new Fanout has subscriptions")
	}

	check("a", "[]")

	f.Add("", "all")
	f.Add("a/", "1")
	f.Add("a/", "1") // once more is the same subscription
	f.Add("a/", "2")
	f.Add("b/", "3")
	f.Add("a/long/", "4")

	check("a/x", "[1 2 all]")
	check("a/long/x", "[1 2 4 all]")
	check("a", "[all]")
	check("", "[all]")
	check("b/", "[3 all]")

	var all []string
	for prefix, s := range f.All() {
		all = append(all, prefix+s)
	}

	slices.Sort(all)
	if got, want := fmt.Sprint(all), "[a/1 a/2 a/long/4 all b/3]"; got != want {
		t.Errorf("all subscriptions are %s, want %s", got, want)
	}

	for range f.Matching("a/x") {
		break // leaving early must not panic
	}

	for range f.All() {
		break
	}

	if !f.Remove("a/", "1") || f.Remove("a/", "1") || f.Remove("b/", "1") {
		t.Error("Remove does not tell whether there was a subscription")
	}

	check("a/x", "[2 all]")
	f.Remove("a/", "2")
	check("b/", "[3 all]") // another prefix of the same length is still found
	f.Remove("b/", "3")
	check("b/", "[all]")

	f.Clear()
	check("a/long/x", "[]")
	if !f.Empty() {
		t.Error("a cleared Fanout has subscriptions")
	}

	f.Add("a/", "5")
	check("a/x", "[5]")

	if f.Closed() {
		t.Error("it is closed before Close")
	}
	f.Close()
	f.Add("a/", "6")
	check("a/x", "[]")
	if !f.Closed() || !f.Empty() {
		t.Error("a closed Fanout has subscriptions")
	}
}
