package output

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Tone is how a cell is shown on a terminal with colour.
type Tone int

// Tones.
const (
	Plain Tone = iota
	Good
	Warning
	Bad
	Strong
	Faint
)

// Cell is a cell of a table.
type Cell struct {
	Text string
	Tone Tone
}

// Rows is a table: its header, and its rows.
type Rows struct {
	Header []string
	Rows   [][]Cell
}

// Add adds a row.
func (t *Rows) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// C returns a plain cell. An empty text is shown as a hyphen.
func C(text string) Cell { return Toned(text, Plain) }

// Toned returns a cell with a tone. An empty text is shown as a hyphen.
func Toned(text string, tone Tone) Cell {
	if text == "" {
		text = "-"
	}
	return Cell{Printable(text), tone}
}

// Table prints a table. A column in which every row is empty is left out.
func (p *Printer) Table(t *Rows) {
	shown, widths := t.columns()
	line := func(cells []Cell) {
		var b strings.Builder
		for i, column := range shown {
			cell := cells[column]
			b.WriteString(p.paint(cell.Text, cell.Tone))
			if i < len(shown)-1 {
				b.WriteString(strings.Repeat(" ", widths[column]-utf8.RuneCountInString(cell.Text)+2))
			}
		}
		p.Printf("%s\n", strings.TrimRight(b.String(), " "))
	}

	var header []Cell
	for _, name := range t.Header {
		header = append(header, Cell{name, Strong})
	}
	line(header)
	for _, row := range t.Rows {
		line(row)
	}
}

// columns returns the columns that are shown, and the width of every column.
func (t *Rows) columns() (shown, widths []int) {
	for column, name := range t.Header {
		width := utf8.RuneCountInString(name)
		empty := len(t.Rows) > 0 && column > 0
		for _, row := range t.Rows {
			width = max(width, utf8.RuneCountInString(row[column].Text))
			empty = empty && row[column].Text == "-"
		}

		widths = append(widths, width)
		if !empty {
			shown = append(shown, column)
		}
	}

	return shown, widths
}

// Paint returns a text in a tone, if this printer has colour.
func (p *Printer) Paint(text string, tone Tone) string { return p.paint(Printable(text), tone) }

func (p *Printer) paint(text string, tone Tone) string {
	code := map[Tone]string{Good: "32", Warning: "33", Bad: "31;1", Strong: "1", Faint: "2"}[tone]
	if !p.Colour || code == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Printable replaces characters that would change how a terminal shows a line: a name in a store may hold any.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// Duration returns a duration as people read it: 12 ms, 4.2 s, 5m12s, 3d4h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}

	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// Milliseconds returns a number of milliseconds as people read it; a hyphen for a negative one.
func Milliseconds(ms int64) string { return Duration(time.Duration(ms) * time.Millisecond) }

// Time returns a time in the local zone; a hyphen for none.
func Time(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// Since returns a time and how long ago it was.
func Since(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s (%s ago)", Time(t), Duration(max(0, now.Sub(t))))
}
