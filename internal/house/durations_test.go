package house

import (
	"go/ast"
	"go/parser"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inAnswers are the directories whose types and measurements are in answers of the HTTP API or in events. A trailing
// slash includes those below.
var inAnswers = []string{
	"", "work", "driver", "internal/core", "cmd/regent/internal/",
}

// noDurations are the numbers of answers and events that are no durations. One with another name must end in Ms.
var noDurations = strings.Fields(`
	again attempts busy candidateCount checkpointBytes concurrency contentionEvents count cut degraded due dropped
	duplicates dutyFailures eligibleCount epoch epochDriftEvents failures gone healthy heartbeats inARow keptBytes late
	lostEvents members next observerPanics partitioned polls priority rank ratio renewFailures retries running seq slots
	failureLimit newest seen stale taken tasks through time total transitions unknown unreachable waiting after
	putPerSecond getPerSecond listPerSecond dollarsPerMonth
`)

// usedNames are the names of numbers that were found.
var usedNames = map[string]bool{}

// seedNames are durations whose names are those of other systems. They are milliseconds.
var seedNames = []string{"heartbeatLatencyP50", "heartbeatLatencyP95", "heartbeatLatencyP99"}

// otherForms are durations that are in no answer: file and type, and why.
var otherForms = map[string]string{
	"cmd/regent/internal/poll/definition.go Poll": "the form of the store, and of the configuration file",
	"work/wire.go wireResult":                     "tasks between nodes, and journals of workers",
	"cmd/regent/internal/libprogram":              "a program for tests",
}

// TestDurationsAreMilliseconds finds durations in JSON whose names do not say that they are milliseconds. A number that
// is new must end in Ms, or be listed here as no duration.
func TestDurationsAreMilliseconds(t *testing.T) {
	fields := 0
	measurements := 0
	for _, path := range sources(t, "") {
		if !answered(path) {
			continue
		}

		ast.Inspect(parse(t, path, parser.SkipObjectResolution), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				fields += checkFields(t, path, n)
			case *ast.CompositeLit:
				measurements += checkMeasurements(t, path, n)
			case *ast.IndexExpr:
				if s, ok := n.X.(*ast.SelectorExpr); ok && s.Sel.Name == "Measurements" {
					measurements++
					checkName(t, path, n.Index)
				}
			}
			return true
		})
	}

	for _, name := range noDurations {
		if !usedNames[name] {
			t.Errorf("noDurations has %q, which no number is called", name)
		}
	}
	if fields < 60 || measurements < 12 {
		t.Errorf("%d fields and %d measurements were found: has their form changed?", fields, measurements)
	}
}

// answered reports whether a file is in one of the directories.
func answered(path string) bool {
	dir := path[:strings.LastIndex(path, "/")+1]
	return slices.ContainsFunc(inAnswers, func(in string) bool {
		return dir == in || dir == in+"/" || strings.HasSuffix(in, "/") && strings.HasPrefix(dir, in)
	})
}

// checkFields checks the fields of a struct that have a name in JSON, and returns how many are numbers.
func checkFields(t *testing.T, path string, spec *ast.TypeSpec) (checked int) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok || excused(path, spec.Name.Name) {
		return 0
	}

	for _, f := range body.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}

		switch kind := typeName(f.Type); {
		case strings.HasSuffix(kind, "Duration"):
			t.Errorf("%s: %s.%s is a Duration in JSON: it must be a number of milliseconds", path, spec.Name.Name, name)
		case number.MatchString(kind):
			checked++
			if !inMilliseconds(name) {
				t.Errorf("%s: %s.%s is a number: if it is a duration, it must be milliseconds and end in Ms; if not, "+
					"list it in noDurations", path, spec.Name.Name, name)
			}
		}
	}

	return checked
}

var number = regexp.MustCompile(`^(u?int(8|16|32|64)?|float(32|64))$`)

// typeName returns the name of a type, without its package and without a pointer.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}

	return ""
}

// checkMeasurements checks the names in a literal of measurements, and returns how many there are.
func checkMeasurements(t *testing.T, path string, lit *ast.CompositeLit) (checked int) {
	kind, ok := lit.Type.(*ast.MapType)
	if !ok || typeName(kind.Key) != "string" || typeName(kind.Value) != "float64" {
		return 0
	}

	for _, element := range lit.Elts {
		checkName(t, path, element.(*ast.KeyValueExpr).Key)
	}

	return len(lit.Elts)
}

// checkName checks the name of a measurement.
func checkName(t *testing.T, path string, e ast.Expr) {
	name, ok := value(e, nil)
	if !ok || !inMilliseconds(name) {
		t.Errorf("%s has the measurement %q: if it is a duration, it must be milliseconds and end in Ms; if not, list "+
			"it in noDurations", path, name)
	}
}

// inMilliseconds reports whether a number with a name is milliseconds, or no duration.
func inMilliseconds(name string) bool {
	usedNames[name] = true
	return strings.HasSuffix(name, "Ms") || slices.Contains(noDurations, name) || slices.Contains(seedNames, name)
}

// excused reports whether a type is in no answer.
func excused(path, name string) bool {
	for form := range otherForms {
		if form == path+" "+name || !strings.Contains(form, " ") && strings.HasPrefix(path, form+"/") {
			return true
		}
	}

	return false
}
