package poll

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Decode reads the JSON definition of a poll, fills in the defaults, and validates it. If name is empty, the definition
// must have it. Unknown and repeated keys are refused. Every error is a [regent.ConfigError] or joins several.
func Decode(name string, data []byte) (Poll, error) {
	v := newViolations(name)
	if name == "" {
		v.prefix = "poll"
	}

	if len(data) > sizeMax {
		v.refuse("", shown(fmt.Sprintf("(%d bytes)", len(data))), "must be at most %d bytes", sizeMax)
		return Poll{}, v.first()
	}

	settings, err := readJSON(data)
	if err != nil {
		v.refuse("", someMapping, "must be a JSON object: %v", err)
		return Poll{}, v.first()
	}

	return build(name, inMilliseconds(settings))
}

const millisecondsRule = "must be a number of milliseconds, such as 30000"

// inMilliseconds renames intervalMs and timeoutMs, the names of answers, to the keys that they are about. Their values
// must be numbers, which are milliseconds in any case.
func inMilliseconds(settings []setting) []setting {
	for i, s := range settings {
		if s.key != "intervalMs" && s.key != "timeoutMs" {
			continue
		}

		if _, err := strconv.ParseFloat(s.text, 64); err != nil && s.rule == "" && s.mapping == nil {
			s.rule = millisecondsRule
			s.text = strconv.Quote(s.text[:min(len(s.text), maxShown)])
		}

		s.given = s.key
		s.key = strings.TrimSuffix(s.key, "Ms")
		settings[i] = s
	}

	return settings
}

func readJSON(data []byte) ([]setting, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	s, err := readValue(dec)
	if err == nil && s.mapping == nil {
		err = errors.New("the value has another type")
	}
	if err != nil {
		return nil, err
	}

	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("there is more after it")
	}

	return s.mapping, nil
}

// readValue reads token by token, since json.Unmarshal accepts repeated keys and keys in another case.
func readValue(dec *json.Decoder) (setting, error) {
	t, err := dec.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return setting{}, err
	}

	switch t := t.(type) {
	case nil:
		return setting{text: "null", rule: nullRule}, nil
	case json.Delim:
		if t == '{' {
			return readObject(dec)
		}
		return readArray(dec)
	}

	return setting{text: fmt.Sprint(t)}, nil // a string, a number as it is written, or a boolean
}

func readObject(dec *json.Decoder) (setting, error) {
	object := setting{mapping: []setting{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return object, err
		}
		s, err := readValue(dec)
		if err != nil {
			return object, err
		}

		s.key = fmt.Sprint(key)
		object.mapping = append(object.mapping, s)
	}

	_, err := dec.Token()
	return object, err
}

// readArray reads a list of strings as a setting whose text is a JSON list: options with several values have this form.
func readArray(dec *json.Decoder) (setting, error) {
	items := []string{}
	rule := ""
	for dec.More() {
		s, err := readValue(dec)
		if err != nil {
			return setting{}, err
		}
		if s.rule != "" || s.mapping != nil {
			rule = listRule
		}
		items = append(items, s.text)
	}

	if _, err := dec.Token(); err != nil {
		return setting{}, err
	}
	if rule != "" {
		return setting{text: string(someList), rule: rule}, nil
	}

	return list(items), nil
}

// list returns a setting with a list of strings.
func list(items []string) setting {
	text, _ := json.Marshal(items) // strings cannot fail
	return setting{text: string(text), list: true}
}
