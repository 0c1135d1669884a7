package reaper

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/regentd/regent"
	"golang.org/x/sys/unix"
)

func TestStart(t *testing.T) {
	t.Run("an_option_that_is_missing_or_wrong_is_refused_by_name", func(t *testing.T) {
		for want, opts := range map[string]Options{
			"Store is empty":   {StopTimeout: time.Second},
			"StopTimeout 0s:":  {Store: "sqlite:x"},
			"StopTimeout -1s:": {Store: "sqlite:x", StopTimeout: -time.Second},
		} {
			if r, err := Start(t.Context(), opts); r != nil || err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v", opts, err)
			}
		}
	})

	t.Run("a_program_that_does_not_call_Main_gets_no_companion_that_would_be_the_program_again", func(t *testing.T) {
		t.Parallel()
		out, err := exec.Command("/proc/self/exe", "member", lone(t), "without-main").CombinedOutput()
		if err == nil || !strings.Contains(string(out), ErrNoMain.Error()) {
			t.Errorf("%v: %s", err, out)
		}
	})

	t.Run("the_first_process_of_a_container_gets_none", func(t *testing.T) {
		t.Parallel()
		unshare := []string{"--pid", "--fork", "--kill-child"}
		if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
			t.Skipf("no pid namespace can be made here: %v: %s", err, out)
		}

		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}

		out, err := exec.Command("unshare", append(unshare, exe, "member", lone(t))...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "first process of its container") ||
			!strings.Contains(string(out), ErrUnsupported.Error()) {
			t.Errorf("%v: %s", err, out)
		}
	})

	t.Run("a_program_that_cannot_have_one_can_tell", func(t *testing.T) {
		if !errors.Is(ErrUnsupported, errors.ErrUnsupported) {
			t.Error(ErrUnsupported)
		}
	})

	t.Run("the_password_in_the_address_is_in_no_process_list_and_no_environment", func(t *testing.T) {
		needsProcesses(t)
		for name, newStore := range stores() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := group{t, newStore(t), regent.Lock()}
				a := g.start("a", "")
				a.leads(within)
				a.logged("store is open")
				for _, file := range []string{"cmdline", "environ"} {
					b, err := os.ReadFile("/proc/" + strconv.Itoa(a.reaper()) + "/" + file)
					if err != nil || len(b) == 0 || strings.Contains(string(b), "secret") {
						t.Errorf("%s: %q, %v", file, b, err)
					}
				}
			})
		}
	})
}

func TestMainRefuses(t *testing.T) {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}

	pidfd := os.NewFile(uintptr(self), "pidfd")
	defer pidfd.Close()

	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()

	const hello = `{"hello":{"store":"sqlite:x","pid":1}}` + "\n"
	for name, c := range map[string]struct {
		files []*os.File
		input string
		want  string
	}{
		"a_companion_that_is_started_by_hand":            {nil, hello, "is not started by hand"},
		"a_companion_that_has_another_file_than_a_pidfd": {[]*os.File{null}, hello, "is not started by hand"},
		"a_companion_that_gets_no_message":               {[]*os.File{pidfd}, "", "no message from the process"},
		"a_companion_that_gets_another_message_first": {[]*os.File{pidfd}, `{"bye":true}` + "\n",
			"no message from the process"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe", Command)
			cmd.Stdin = strings.NewReader(c.input)
			cmd.ExtraFiles = c.files
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// lone returns the setup of a member process that no other joins.
func lone(t *testing.T) string {
	t.Helper()
	arg, err := json.Marshal(setup{Store: newSQLite(t), Name: "a", Config: regent.Lock()})
	if err != nil {
		t.Fatal(err)
	}
	return string(arg)
}
