package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	_ "time/tzdata" // where the system has none

	"github.com/hashicorp/cronexpr"
	gocron "github.com/netresearch/go-cron"
	robfig "github.com/robfig/cron/v3"
)

// cronCase is a line of the table that Regent's own schedules are tested with.
type cronCase struct {
	name, expression string
	zone             *time.Location
	after, want      time.Time
}

const cronTableFile = "../cmd/regent/internal/schedule/testdata/cron.txt"

func cronTable() ([]cronCase, error) {
	text, err := os.ReadFile(cronTableFile)
	if err != nil {
		return nil, err
	}

	var cases []cronCase
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), " | ")
		if len(fields) != 5 || strings.HasPrefix(line, "#") {
			continue
		}

		zone, err1 := time.LoadLocation(strings.TrimPrefix(fields[2], "-"))
		after, err2 := time.Parse(time.RFC3339, fields[3])
		want, err3 := time.Parse(time.RFC3339, fields[4])
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, fmt.Errorf("%s: %w", fields[0], err)
		}

		cases = append(cases, cronCase{fields[0], fields[1], zone, after.In(zone), want.In(zone)})
	}

	return cases, nil
}

// nexter is what the schedules of all libraries have.
type nexter interface{ Next(time.Time) time.Time }

type cronLibrary struct {
	name  string
	parse func(string) (nexter, error)
}

func cronLibraries() []cronLibrary {
	// DowOrDom is the rule of Vixie's cron, which the others have by default.
	parser := gocron.MustNewParser(gocron.Minute | gocron.Hour | gocron.Dom | gocron.Month | gocron.Dow |
		gocron.Descriptor | gocron.DowOrDom)
	return []cronLibrary{
		{"robfig/cron 3.0.1", func(s string) (nexter, error) { return robfig.ParseStandard(s) }},
		{"hashicorp/cronexpr 1.1.3", func(s string) (nexter, error) { return cronexpr.Parse(s) }},
		{"netresearch/go-cron 0.9.1", func(s string) (nexter, error) { return parser.Parse(s) }},
	}
}

// answer returns what a library says of a case, as the cell of a table: ok if it is what the table says.
func (l cronLibrary) answer(c cronCase) string {
	schedule, err := l.parse(c.expression)
	if err != nil {
		return "refused"
	}

	switch next := schedule.Next(c.after); {
	case next.Equal(c.want):
		return "ok"
	case next.IsZero():
		return "never"
	default:
		return cronMoment(next.In(c.zone))
	}
}

func cronMoment(t time.Time) string { return t.Format("2006-01-02 15:04 -07:00") }

// cronCommand has this test binary write the answers of one library, from one case on.
const cronCommand = "cron"

// cronSeconds is how much processor time the whole table may take, which needs a twentieth of it.
const cronSeconds = 1

func playCron(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a library and the number of a case")
	}
	library, err1 := strconv.Atoi(args[0])
	first, err2 := strconv.Atoi(args[1])
	cases, err3 := cronTable()

	// The kernel kills the process at the hard limit, so that a busy machine makes no difference.
	err4 := syscall.Setrlimit(syscall.RLIMIT_CPU, &syscall.Rlimit{Cur: cronSeconds, Max: cronSeconds})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}

	for _, c := range cases[first:] {
		fmt.Fprintln(out, cronLibraries()[library].answer(c))
	}
	return nil
}

// cronAnswers asks a library in processes of its own, since it may not return.
func cronAnswers(t *testing.T, library int, cases []cronCase) []string {
	var answers []string
	for len(answers) < len(cases) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], cronCommand, strconv.Itoa(library),
			strconv.Itoa(len(answers)))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		answers = append(answers, strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")...)

		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
			answers = append(answers, "does not return")
		case err != nil:
			t.Fatal(err)
		}
	}

	return answers
}

// TestCronLibraries tries libraries on the table of cases of Regent's own cron schedules. What differs is in
// docs/DECISIONS.md. If this fails because a library has changed, decide again whether one can replace our own.
func TestCronLibraries(t *testing.T) {
	t.Parallel()
	cases, err := cronTable()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) < 41 {
		t.Fatalf("only %d cases in %s", len(cases), cronTableFile)
	}

	libraries := cronLibraries()
	answers := make([][]string, len(libraries))
	heads := []string{"case", "due"}

	agree := []string{fmt.Sprintf("as our own, of %d cases", len(cases)), strconv.Itoa(len(cases))}
	for i, l := range libraries {
		answers[i] = cronAnswers(t, i, cases)
		heads = append(heads, l.name)
		n := 0
		for _, a := range answers[i] {
			if a == "ok" {
				n++
			}
		}

		agree = append(agree, strconv.Itoa(n))
	}

	rows := [][]string{heads, slices.Repeat([]string{"---"}, len(heads))}
	for k, c := range cases {
		row := []string{cronTitle(c), cronMoment(c.want)}
		for i := range libraries {
			row = append(row, answers[i][k])
		}

		if slices.ContainsFunc(row[2:], func(a string) bool { return a != "ok" }) {
			rows = append(rows, row)
		}
	}

	rows = append(rows, agree)
	expectInDecisions(t, rows)
}

// cronTitle names a case for readers.
func cronTitle(c cronCase) string {
	title := strings.ReplaceAll(c.name, "_", " ") + ": `" + c.expression + "`"
	if c.zone != time.UTC {
		title += ", " + c.zone.String()
	}
	return title
}

// expectInDecisions logs the table, and checks that each of its rows is in the document.
func expectInDecisions(t *testing.T, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/DECISIONS.md")
	if err != nil {
		t.Fatal(err)
	}

	var all strings.Builder
	for _, cells := range rows {
		row := "| " + strings.Join(cells, " | ") + " |\n"
		if cells[0] == "---" {
			row = strings.ReplaceAll(row, " ", "")
		}

		all.WriteString(row)
		if !strings.Contains(string(text), row) {
			t.Errorf("docs/DECISIONS.md lacks the row: %s", row)
		}
	}

	t.Log("\n" + all.String())
}
