package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"assay/internal/fault"
)

// maxConfig bounds a file of settings, in bytes.
const maxConfig = 1 << 20

// configFile are the settings of a YAML file. The environment goes before them.
type configFile map[string]any

func readConfig(r io.Reader) (kong.Resolver, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if len(data) > maxConfig {
		return nil, fault.Errorf(fault.Invalid, "read settings: the file has more than %d bytes", maxConfig).WithHint("is it the right file?")
	}
	c := configFile{}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return nil, fault.Errorf(fault.Invalid, "read settings: %w", err).WithHint(`write a line "NAME: VALUE" for each flag of "assay serve"`)
	}
	for key, v := range c {
		switch v.(type) {
		case nil:
			return nil, fault.Errorf(fault.Invalid, "read settings: %s has no value", key).WithHint("give it one, or leave the line out")
		case map[string]any:
			return nil, fault.Errorf(fault.Invalid, "read settings: %s has settings inside", key).WithHint("the flags' names are the keys, all on one level")
		}
	}
	return c, nil
}

// Validate refuses keys that are no setting, so that a slip of the pen is seen.
func (c configFile) Validate(a *kong.Application) error {
	known := map[string]bool{}
	for _, command := range a.Leaves(false) {
		if command.Name != "serve" {
			continue
		}
		for _, group := range command.AllFlags(false) {
			for _, f := range group {
				known[f.Name] = true
			}
		}
	}
	var wrong []string
	for key := range c {
		if !known[key] {
			wrong = append(wrong, key)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fault.Errorf(fault.Invalid, "settings that do not exist: %s", strings.Join(wrong, ", ")).WithHint(`"assay serve --help" lists all`)
}

// Resolve gives a flag its value of the file.
func (c configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	v, ok := c[flag.Name]
	if !ok || envSet(flag) {
		return nil, nil
	}
	if list, isList := v.([]any); isList {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = fmt.Sprint(e)
		}
		return strings.Join(words, ","), nil
	}
	return fmt.Sprint(v), nil
}
