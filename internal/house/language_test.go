package house

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// proseWidth is how long a line of prose may be. Tables, code, and lines without a space, such as a long link, may be
// longer.
const proseWidth = 100

// banned are words that a reader of this field would have to guess, with what to write instead. They are matched as
// whole words, in any case, outside of code.
var banned = map[string]string{
	`ailing|ill`:                     "unhealthy",
	`brood`:                          "process tree",
	`bur(y|ies|ied)`:                 "release",
	`calm|patience`:                  "backoff, timeout",
	`conducts?`:                      "run, orchestrate",
	`crews?`:                         "cluster, workers",
	`exactly one`:                    "at most one",
	`hangs? on`:                      "depend on",
	`hints? brings?`:                 "a notification carries",
	`in charge`:                      "leading",
	`lets? go`:                       "release",
	`looks?|looked|looking`:          "read, check, poll",
	`shelf|shelves`:                  "store",
	`spoilt`:                         "damaged",
	`stirs?|stirred`:                 "change",
	`(is|are|was|were|be|been) told`: "gets, receives, is notified",
	`told`:                           "reported",
	`winds?`:                         "",

	// A word with one meaning elsewhere. As the name of an election in a test it is no prose.
	`(an?|the|its?|each|every|vacant|held|free|taken|own|of|all) seats?`: "election",
}

// TestDocumentsReadPlainly checks documents for banned words, and for lines of prose that are too long.
func TestDocumentsReadPlainly(t *testing.T) {
	words := map[*regexp.Regexp]string{}
	for pattern, instead := range banned {
		words[regexp.MustCompile(`(?i)\b(`+pattern+`)\b`)] = instead
	}

	for _, path := range files(t, ".md") {
		document := blank(read(t, path), fencedBlock)
		for i, line := range strings.Split(document, "\n") {
			if n := utf8.RuneCountInString(line); n > proseWidth && isProse(line) {
				t.Errorf("%s:%d: %d columns, prose has at most %d", path, i+1, n, proseWidth)
			}
		}
		for i, line := range strings.Split(blank(document, codeSpan, linkTarget), "\n") {
			for word, instead := range words {
				if found := word.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: write %s", path, i+1, found, instead)
				}
			}
		}
	}
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeSpan    = regexp.MustCompile("`[^`\n]*(\n[^`\n]+)*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
)

// blank takes out what matches, and keeps the line breaks in it.
func blank(text string, matches ...*regexp.Regexp) string {
	for _, m := range matches {
		text = m.ReplaceAllStringFunc(text, func(s string) string {
			return "`" + strings.Repeat("\n", strings.Count(s,
				"\n")) + "`"
		})
	}

	return text
}

// isProse reports whether a line could be wrapped: it is no row of a table, no image, and has a space to wrap at.
func isProse(line string) bool {
	trimmed := strings.TrimSpace(line)

	return !strings.HasPrefix(trimmed, "|") && !strings.HasPrefix(trimmed, "![") && !strings.HasPrefix(line, "    ") &&
		strings.Contains(trimmed, " ")
}
