package config

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/regentd/regent"
)

// not is a boolean field that is false where its key is true: a key such as eligible, whose default is true.
type not struct{ field *bool }

// typeName returns the name of the type of a field.
func typeName(field any) string {
	switch field.(type) {
	case *bool, not:
		return "boolean"
	case *int:
		return "integer"
	case *float64:
		return "number"
	case *time.Duration:
		return "duration"
	case *[]time.Duration:
		return "durations"
	case *map[string]string:
		return "labels"
	case *slog.Level:
		return "level"
	}

	return "text"
}

// parse sets a field to the value of text. If it cannot, it returns the rule that the text breaks.
func parse(field any, text string) (rule string) {
	trimmed := strings.TrimSpace(text)
	var err error
	switch p := field.(type) {
	case *string:
		*p = text
	case *regent.Rank:
		*p = regent.Rank(trimmed)
	case *bool:
		if *p, err = strconv.ParseBool(trimmed); err != nil {
			return "must be true or false"
		}
	case not:
		on := false
		if rule := parse(&on, text); rule != "" {
			return rule
		}
		*p.field = !on
	case *int:
		if *p, err = strconv.Atoi(trimmed); err != nil {
			return "must be a whole number"
		}
	case *float64:
		if *p, err = strconv.ParseFloat(trimmed, 64); err != nil || math.IsInf(*p, 0) || math.IsNaN(*p) {
			return "must be a number"
		}
	case *time.Duration:
		if *p, err = parseDuration(trimmed); err != nil {
			return "must be a duration, such as 1.5s or 500ms, or a number of milliseconds"
		}
	case *[]time.Duration:
		return parseDurations(p, trimmed)
	case *map[string]string:
		return parseLabels(p, trimmed)
	case *slog.Level:
		return parseLevel(p, trimmed)
	default:
		panic(fmt.Sprintf("config: no type for %T", field))
	}

	return ""
}

// grouped is a number as Elixir and YAML group it: 5_000.
var grouped = regexp.MustCompile(`^[0-9]+(_[0-9]+)+$`)

// parseDuration parses a duration. A bare number is milliseconds.
func parseDuration(s string) (time.Duration, error) {
	if grouped.MatchString(s) {
		s = strings.ReplaceAll(s, "_", "")
	}
	if strings.Trim(s, "+-.0123456789") == "" {
		s += "ms"
	}
	return time.ParseDuration(s)
}

func parseLevel(level *slog.Level, s string) (rule string) {
	names := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	named, ok := names[strings.ToLower(s)]
	if !ok {
		return "must be debug, info, warn or error"
	}

	*level = named
	return ""
}

func parseDurations(list *[]time.Duration, s string) (rule string) {
	*list = nil
	if s == "" {
		return ""
	}

	for item := range strings.SplitSeq(s, ",") {
		d, err := parseDuration(strings.TrimSpace(item))
		if err != nil {
			return "must be durations with commas between, such as 500ms,1s,2s"
		}
		*list = append(*list, d)
	}

	return ""
}

func parseLabels(labels *map[string]string, s string) (rule string) {
	*labels = nil
	if s == "" {
		return ""
	}

	m := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value = strings.TrimSpace(value)

		if !ok || name == "" {
			return "must be name=value with commas between"
		}
		if _, ok := m[name]; ok {
			return "must name each label once"
		}

		m[name] = value
	}

	*labels = m
	return ""
}

// format returns the text of a field that parse reads.
func format(field any) string {
	switch p := field.(type) {
	case *string:
		return *p
	case *regent.Rank:
		return string(*p)
	case *bool:
		return strconv.FormatBool(*p)
	case not:
		return strconv.FormatBool(!*p.field)
	case *int:
		return strconv.Itoa(*p)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *time.Duration:
		return p.String()
	case *[]time.Duration:
		items := make([]string, len(*p))
		for i, d := range *p {
			items[i] = d.String()
		}
		return strings.Join(items, ",")
	case *map[string]string:
		items := make([]string, 0, len(*p))
		for _, name := range slices.Sorted(maps.Keys(*p)) {
			items = append(items, name+"="+(*p)[name])
		}
		return strings.Join(items, ",")
	case *slog.Level:
		return strings.ToLower(p.String())
	}

	panic(fmt.Sprintf("config: no type for %T", field))
}
