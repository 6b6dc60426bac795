package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

// mostSubmissions bounds the submissions of one command.
const mostSubmissions = 20_000

// collect reads the submissions that a command line names; none are all
// labelled ones of the package. folders makes one submission of each folder
// that is named. warnings are for people.
func collect(pkg *problempkg.Package, files []string, folders bool) ([]problempkg.Labelled, []string, error) {
	if len(files) == 0 {
		return pkg.Submissions, nil, nil
	}
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, nil, err
	}
	c := &collector{pkg: pkg, languages: languages}
	for _, f := range files {
		info, err := os.Stat(f)
		if err == nil && info.IsDir() && !folders {
			err = c.folder(f)
		} else {
			err = c.add(f)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return c.list, c.warnings, nil
}

type collector struct {
	pkg       *problempkg.Package
	languages *judge.Languages
	list      []problempkg.Labelled
	warnings  []string
}

// add reads one submission, a file or a folder.
func (c *collector) add(path string) error {
	l, ok := c.pkg.Find(path)
	if !ok {
		var warnings []string
		var err error
		if l, warnings, err = problempkg.ReadSubmission(path); err != nil {
			return err
		}
		c.warnings = append(c.warnings, warnings...)
	}
	if len(c.list) == mostSubmissions {
		return fault.Errorf(fault.Invalid, "there are more than %d submissions", mostSubmissions).WithHint("judge them in parts")
	}
	c.list = append(c.list, l)
	return nil
}

// folder reads what lies in a folder: of one named submissions what lies in its
// label folders, of a label folder and any other all in it. One below a label
// folder is a submission itself.
func (c *collector) folder(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fault.Errorf(fault.Invalid, "submissions in %s: %w", dir, err)
	}
	if filepath.Base(filepath.Dir(filepath.Dir(abs))) == "submissions" {
		return c.add(dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Errorf(fault.Invalid, "submissions in %s: %w", dir, err)
	}
	before := len(c.list)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."), filepath.Base(abs) == "submissions" && e.Name() == "submissions.yaml":
		case filepath.Base(abs) == "submissions":
			if err := c.labelFolder(path); err != nil {
				return err
			}
		default:
			if err := c.entry(path, e.Type()); err != nil {
				return err
			}
		}
	}
	if len(c.list) == before {
		return fault.Errorf(fault.Invalid, "folder %s has no submissions", dir).
			WithHint("a submission is a file with the extension of a language, or a folder of such files")
	}
	return nil
}

// labelFolder reads the submissions below submissions/<label>/.
func (c *collector) labelFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		c.warnings = append(c.warnings, dir+" is not a folder of submissions and is left out")
		return nil
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := c.entry(filepath.Join(dir, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

// entry reads one of many submissions: what is no source is left out, with a
// warning.
func (c *collector) entry(path string, mode fs.FileMode) error {
	if mode&fs.ModeSymlink != 0 {
		// Packages keep one source under several labels.
		info, err := os.Stat(path)
		if err != nil {
			c.leaveOut(path, "it leads nowhere")
			return nil
		}
		mode = info.Mode().Type()
	}
	if !mode.IsRegular() && !mode.IsDir() {
		c.leaveOut(path, "it is neither a file nor a folder")
		return nil
	}
	if mode.IsRegular() {
		if _, err := c.languages.Detect([]judge.SourceFile{{Name: filepath.Base(path)}}); err != nil {
			if _, labelled := c.pkg.Find(path); !labelled {
				c.leaveOut(path, "its name is not of a known language")
				return nil
			}
		}
	}
	return c.add(path)
}

func (c *collector) leaveOut(path, why string) {
	c.warnings = append(c.warnings, fmt.Sprintf("%s is left out: %s", path, why))
}
