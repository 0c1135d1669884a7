package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
)

// figure is the result of one measurement.
type figure struct {
	Name       string  `json:"name"`
	Command    string  `json:"command"`
	Title      string  `json:"title"`
	LoadBefore string  `json:"loadBefore"`
	LoadAfter  string  `json:"loadAfter"`
	Took       string  `json:"took"`
	Tables     []table `json:"tables"`
}

// table is a table of a figure: a row for each side.
type table struct {
	Title   string   `json:"title"`
	Columns []string `json:"columns"` // without the first one, the side
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// row is the row of one side.
type row struct {
	Side   string   `json:"side"`
	Values []number `json:"values"`
}

// number is a cell of a table; NaN if it was not measured.
type number float64

var none = number(math.NaN())

// String returns the number with about three significant digits.
func (n number) String() string {
	f := float64(n)
	switch {
	case math.IsNaN(f):
		return ""
	case f == math.Trunc(f) && math.Abs(f) < 1000:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case math.Abs(f) >= 1000:
		s := strconv.FormatFloat(f, 'f', 0, 64)
		for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	case math.Abs(f) >= 100:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case math.Abs(f) >= 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	case math.Abs(f) >= 0.1:
		return strconv.FormatFloat(f, 'f', 2, 64)
	}

	return strconv.FormatFloat(f, 'f', 3, 64)
}

// MarshalJSON returns null for NaN, which JSON does not have.
func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); !math.IsNaN(f) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

func (f figure) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\nLoad average %s before, %s after; took %s. Command: `%s`\n\n",
		f.Title, f.LoadBefore, f.LoadAfter, f.Took, f.Command)

	for _, t := range f.Tables {
		fmt.Fprintf(&b, "| %s | %s |\n", t.Title, strings.Join(t.Columns, " | "))
		fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---|", len(t.Columns)))

		for _, r := range t.Rows {
			fmt.Fprintf(&b, "| %s |", r.Side)
			for _, v := range r.Values {
				fmt.Fprintf(&b, " %s |", v)
			}
			b.WriteByte('\n')
		}

		b.WriteByte('\n')
		for _, n := range t.Notes {
			fmt.Fprintf(&b, "%s\n\n", n)
		}
	}

	_, err := io.WriteString(w, b.String())
	return err
}

// loadAverage returns the load of the machine over 1, 5 and 15 minutes, or nothing where it is not known.
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(b))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
