package problempkg

import (
	"bytes"
	"regexp"

	"assay/internal/fault"
)

// constants are the values that stand for {{name}} and {{name.variant}}
// (2025-09), by the text inside of the braces.
type constants map[string]string

const maxConstantValue = 4096

var (
	constantName     = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	constantSequence = regexp.MustCompile(`\{\{[a-zA-Z_][a-zA-Z0-9_]*(\.[a-zA-Z_][a-zA-Z0-9_]*)?\}\}`)
)

func readConstants(f field) (constants, error) {
	fields, err := f.fields()
	if err != nil {
		return nil, err
	}
	c := constants{}
	put := func(name string, g field) error {
		v, err := g.text()
		if err != nil {
			return err
		}
		if len(v) > maxConstantValue {
			return g.wrong("is longer than %d bytes", maxConstantValue)
		}
		c[name] = v
		return nil
	}
	for _, g := range fields {
		name := g.key[len(f.key)+1:]
		if !constantName.MatchString(name) {
			return nil, g.wrong("the name of a constant has letters, digits and underscores, and begins with no digit")
		}
		variants, err := g.fields()
		if err != nil {
			if err := put(name, g); err != nil {
				return nil, err
			}
			c[name+".value"] = c[name]
			continue
		}
		for _, v := range variants {
			if err := put(name+"."+v.key[len(g.key)+1:], v); err != nil {
				return nil, err
			}
		}
		value, ok := c[name+".value"]
		if !ok {
			return nil, g.wrong("has no value").WithHint("give the key value, or write the value itself")
		}
		c[name] = value
	}
	return c, nil
}

// fill puts the values into a file, which may grow to limit bytes. Sequences
// that name no constant stay.
func (c constants) fill(name string, data []byte, limit int) ([]byte, error) {
	if len(c) == 0 || !bytes.Contains(data, []byte("{{")) {
		return data, nil
	}
	var out []byte
	at := 0
	for _, loc := range constantSequence.FindAllIndex(data, -1) {
		v, ok := c[string(data[loc[0]+2:loc[1]-2])]
		if !ok {
			continue
		}
		out = append(append(out, data[at:loc[0]]...), v...)
		if at = loc[1]; len(out) > limit {
			break
		}
	}
	if out = append(out, data[at:]...); len(out) > limit {
		return nil, fault.Errorf(fault.Invalid, "%s has more than %d bytes once its constants are filled in", name, limit)
	}
	return out, nil
}
