package check

import (
	"encoding/json"
	"strings"
)

// program is a check of kind exec: a program that exits with 0 if the target is well. Its first line of output is the
// message. It runs without a shell. It does not inherit the environment of this process, which may hold the cluster
// token.
type program struct {
	path string
	args []string
	env  []string
}

// execPath is the list of directories for programs that are named without one.
const execPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func readExec(r *reader) probe {
	p := &program{path: r.target, env: []string{"PATH=" + execPath, "LC_ALL=C", "HOME=/"}}
	switch {
	case r.target == "" || strings.Contains(r.target, "\x00"),
		strings.Contains(r.target, "/") != strings.HasPrefix(r.target, "/"),
		r.target == "." || r.target == "..":
		r.refuseTarget("must be an absolute path, or the name of a program without a directory; " +
			"its arguments are in options.args")
	}

	err := json.Unmarshal([]byte(r.text("args", "[]")), &p.args)
	if err != nil || strings.Contains(strings.Join(p.args, ""), "\x00") {
		r.refuseOption("args", `must be a JSON list of texts, such as ["-c", "exit 0"]`)
	}

	r.each("env.", func(name, value string) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			r.refuseOption("env."+name, "must be the name of a variable after the dot")
		}
		p.env = append(p.env, name+"="+value)
	})

	return p.run
}
