package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/fault"
)

// credentials are the servers that this user has signed in to, in
// ~/.config/assay/credentials.json, which only the user may read.
type credentials struct {
	// Current is the server that commands speak to when none is named.
	Current string `json:"current,omitempty"`
	// Tokens are by the server's address.
	Tokens map[string]string `json:"tokens"`
}

func credentialsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.Errorf(fault.Unsupported, "find the folder for credentials: %w", err).WithHint("set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(dir, "assay", "credentials.json"), nil
}

// readCredentials gives none where there is no file.
func readCredentials() (credentials, error) {
	c := credentials{Tokens: map[string]string{}}
	path, err := credentialsPath()
	if err != nil {
		return c, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return c, fault.Errorf(fault.Invalid, "read %s: %w", path, err).WithHint("remove it and run \"assay login\" again")
	}
	if c.Tokens == nil {
		c.Tokens = map[string]string{}
	}
	return c, nil
}

func (c credentials) write() error {
	path, err := credentialsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fault.Errorf(fault.Unavailable, "keep credentials: %w", err)
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, append(data, '\n'), 0o600)
}

// serverURL is the one form of a server's address.
func serverURL(text string) string {
	text = strings.TrimSuffix(strings.TrimSpace(text), "/")
	if text != "" && !strings.Contains(text, "://") {
		text = "http://" + text
	}
	return text
}
