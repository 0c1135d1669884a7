package poll

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads the definition of a poll, fills in the defaults, and validates it. If name is empty, the definition must hold it. Keys that are
// not known, or there twice, are refused.
func Decode(name string, data []byte) (Poll, error) {
	f := &faults{key: keyOf(name)}
	if name == "" {
		f.key = "poll"
	}
	if len(data) > sizeMax {
		f.refuse("", fmt.Sprintf("(%d bytes)", len(data)), "must be at most %d bytes", sizeMax)
		return Poll{}, f.errs[0]
	}
	settings, err := readJSON(data)
	if err != nil {
		f.refuse("", "{…}", "must be a JSON object: %v", err)
		return Poll{}, f.errs[0]
	}
	return build(name, settings)
}

func readJSON(data []byte) ([]setting, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	e, err := readValue(dec)
	if err == nil && e.mapping == nil {
		err = errors.New("it is something else")
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows it")
	}
	return e.mapping, nil
}

// readValue goes token by token, since Unmarshal takes the last of two equal keys, and those that differ in case.
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
	return setting{text: fmt.Sprint(t)}, nil // a text, a number as it is written, or a boolean
}

func readObject(dec *json.Decoder) (setting, error) {
	object := setting{mapping: []setting{}}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return object, err
		}
		e, err := readValue(dec)
		if err != nil {
			return object, err
		}
		e.key = fmt.Sprint(key)
		object.mapping = append(object.mapping, e)
	}
	_, err := dec.Token()
	return object, err
}

// readArray takes a list of texts as the text of a JSON list, which is what options that hold one are.
func readArray(dec *json.Decoder) (setting, error) {
	items := []string{}
	form := ""
	for dec.More() {
		e, err := readValue(dec)
		if err != nil {
			return setting{}, err
		}
		if e.rule != "" || e.mapping != nil {
			form = listRule
		}
		items = append(items, e.text)
	}
	if _, err := dec.Token(); err != nil {
		return setting{}, err
	}
	if form != "" {
		return setting{text: "[…]", rule: form}, nil
	}
	return list(items), nil
}

// list is a setting that holds a list of texts.
func list(items []string) setting {
	text, _ := json.Marshal(items) // texts cannot fail
	return setting{text: string(text), list: true}
}
