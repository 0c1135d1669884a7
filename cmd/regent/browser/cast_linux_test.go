package browser

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/chromedp/chromedp"
)

// maxCast is the size of the largest cast of the README, in bytes.
const maxCast = 300_000

// TestCast checks the cast of the demo in the README. With REGENT_UPDATE=1 it records a demo on a terminal and makes
// the cast of it.
func TestCast(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "demo.svg")
	if os.Getenv("REGENT_UPDATE") != "" {
		chunks := record(t, "never two at once.", "demo")
		if err := os.WriteFile(path, []byte(castOf(t, chunks)), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)

	t.Run("it_is_small_and_has_neither_scripts_nor_links", func(t *testing.T) {
		if len(data) > maxCast {
			t.Errorf("%d bytes, at most %d are allowed", len(data), maxCast)
		}
		active := regexp.MustCompile(`(?i)<script|\son[a-z]+=|href|url\(|@import|<foreignObject`)
		if found := active.FindString(text); found != "" {
			t.Errorf("it has %q", found)
		}
		for in := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := in.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("it_shows_each_fault_and_its_takeover", func(t *testing.T) {
		for _, part := range []string{"kill -9 node-", "regent handoff coordinator --to node-", "kill -STOP node-",
			"the store takes no writes from now on", "never two at once"} {
			if !strings.Contains(text, part) {
				t.Errorf("it does not show %q", part)
			}
		}
		if got := len(regexp.MustCompile(`leads, epoch \d+: [\d.]+ m?s later`).FindAllString(text, -1)); got != 4 {
			t.Errorf("%d takeovers, and the tour has 4", got)
		}
	})

	t.Run("a_browser_plays_it", func(t *testing.T) { playCast(t, data) })
}

// playCast opens the cast in the browser, and goes to its beginning and its end.
func playCast(t *testing.T, data []byte) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/favicon.ico" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)

	b := newTab(t)
	b.run(chromedp.Navigate(server.URL))
	visible := func(share string) string {
		return eval[string](b, fmt.Sprintf(`(() => {
			for (const a of document.getAnimations()) {
				a.pause();
				a.currentTime = a.effect.getTiming().duration * %s;
			}
			return [...document.querySelectorAll('text')].filter(e => getComputedStyle(e).visibility === 'visible')
				.map(e => e.textContent).join('\n');
		})()`, share))
	}

	begin, end := visible("0.1"), visible("0.99")
	b.picture("cast")
	if !strings.Contains(begin, "leads, epoch 1") || strings.Contains(begin, "epoch 5") {
		t.Errorf("at the beginning it shows\n%s", begin)
	}
	if !strings.Contains(end, "never two at once") || strings.Count(end, "  lease ") != 1 {
		t.Errorf("at the end it shows\n%s", end)
	}

	b.look(900, 600, "light", "reduce")
	still := eval[string](b, `[...document.querySelectorAll('text')].filter(e => getComputedStyle(e).visibility ===
		'visible').map(e => e.textContent).join('\n')`)
	if running := eval[int](b, `document.getAnimations().length`); running != 0 || still != end {
		t.Errorf("who prefers less motion sees %d animations and\n%s", running, still)
	}
}

// span is a line of the screen for some time.
type span struct {
	row      int
	svg      string
	from, to time.Duration
}

// pause is how long a program writes nothing, so that what it wrote before is whole.
const pause = 15 * time.Millisecond

// castOf makes an animated picture of what was recorded. It has no script: each line is an element that is visible from
// when it was written until it was changed, and the whole moves up as a terminal does.
func castOf(t *testing.T, chunks []chunk) string {
	t.Helper()
	s := &screen{}
	var spans []span
	open := map[int]int{} // the span of each row
	type move struct {
		at  time.Duration
		top int
	}
	moves := []move{{}}

	for i, c := range chunks {
		s.write(t, c.text)
		if i+1 < len(chunks) && chunks[i+1].at-c.at < pause {
			continue
		}

		for row := range max(len(s.lines), len(open)+castRows) {
			svg := ""
			if row < len(s.lines) {
				svg = markup(s.lines[row])
			}
			before, ok := open[row]
			switch {
			case ok && spans[before].svg == svg:
				continue
			case ok:
				spans[before].to = c.at
				delete(open, row)
			}
			if svg != "" {
				open[row] = len(spans)
				spans = append(spans, span{row: row, svg: svg, from: c.at})
			}
		}
		if top := max(0, len(s.lines)-castRows); top != moves[len(moves)-1].top {
			moves = append(moves, move{c.at, top})
		}
	}

	var frames, body strings.Builder
	length := chunks[len(chunks)-1].at + 3*time.Second
	share := func(at time.Duration) string {
		return strings.TrimSuffix(fmt.Sprintf("%.2f", 100*at.Seconds()/length.Seconds()), ".00") + "%"
	}
	frames.WriteString("@keyframes up{")
	for _, m := range moves {
		fmt.Fprintf(&frames, "%s{transform:translateY(%dpx)}", share(m.at), -m.top*lineHeight)
	}
	frames.WriteString("}\n")
	for i, p := range spans {
		fmt.Fprintf(&frames, "@keyframes a%d{%s{visibility:visible}", i, share(p.from))
		class := " class=\"z\"" // it stays
		if p.to > 0 {
			class = ""
			fmt.Fprintf(&frames, "%s{visibility:hidden}", share(p.to))
		}
		frames.WriteString("}\n")
		fmt.Fprintf(&body, "<text%s y=\"%d\" style=\"animation-name:a%d\">%s</text>\n", class,
			(p.row+1)*lineHeight, i, p.svg)
	}

	return fmt.Sprintf(castFrame, castColumns*charWidth+32, castRows*lineHeight+64, length.Seconds(),
		-moves[len(moves)-1].top*lineHeight, frames.String(), castRows*lineHeight+8, body.String())
}

// The size of a character, in pixels.
const (
	charWidth  = 8
	lineHeight = 18
)

// castFrame is the picture around the lines.
const castFrame = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" ` +
	`role="img" aria-label="A recording of regent demo: the leader is killed, asked to hand over and frozen, ` +
	`the store hangs, and each takeover is measured">
<style>
text{font:13.3px ui-monospace,"SF Mono","DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre;
visibility:hidden;animation:%.1[3]fs step-end infinite}
.b{fill:#fff;font-weight:700}.g{fill:#56d364}.p{fill:#8b949e}
.up{transform:translateY(%[4]dpx);animation:up %.1[3]fs step-end infinite}
@media(prefers-reduced-motion:reduce){text,.up{animation:none!important}.z{visibility:visible}}
%[5]s</style>
<rect width="100%%" height="100%%" rx="10" fill="#0d1117"/>
<g fill="#30363d"><circle cx="20" cy="18" r="6"/><circle cx="40" cy="18" r="6"/><circle cx="60" cy="18" r="6"/></g>
<svg x="16" y="40" width="100%%" height="%[6]d"><g class="up">
%[7]s</g></svg>
</svg>
`

// markup returns a line as text of a picture.
func markup(line []cell) string {
	var b strings.Builder
	style := byte(0)
	for i, c := range line {
		if strings.TrimSpace(string(runes(line[i:]))) == "" {
			break
		}
		if c.style != style {
			if style != 0 {
				b.WriteString("</tspan>")
			}
			if c.style != 0 {
				fmt.Fprintf(&b, "<tspan class=\"%c\">", c.style)
			}
			style = c.style
		}
		b.WriteString(html.EscapeString(string(c.char)))
	}
	if style != 0 {
		b.WriteString("</tspan>")
	}

	return b.String()
}

func runes(line []cell) (all []rune) {
	for _, c := range line {
		all = append(all, c.char)
	}
	return all
}

// decode returns the first character of a text; 0 bytes if the rest of it has not come yet.
func decode(text string) (rune, int) {
	if !utf8.FullRuneInString(text) {
		return 0, 0
	}
	return utf8.DecodeRuneInString(text)
}
