package pandastack

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/httpapi"
	"assay/internal/sandboxes"
)

// place is the sandbox and the path of a request.
func (s *server) place(r *http.Request, otherwise string) (id, path string, err error) {
	rec, err := s.find(r)
	if err != nil {
		return "", "", err
	}
	if path = r.URL.Query().Get("path"); path == "" {
		path = otherwise
	}
	if path == "" {
		return "", "", fault.Errorf(fault.Invalid, "path required")
	}
	return rec.ID, path, nil
}

func (s *server) readFile(w http.ResponseWriter, r *http.Request) error {
	id, path, err := s.place(r, "")
	if err != nil {
		return err
	}
	body, err := s.Service.ReadFile(r.Context(), id, path)
	if err != nil {
		return err
	}
	defer body.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, body); err != nil {
		s.Log.WarnContext(r.Context(), "a file could not be sent to its end", "sandbox", id, "err", err)
		panic(http.ErrAbortHandler) // half a file must not look like a whole one
	}
	return nil
}

func (s *server) writeFile(w http.ResponseWriter, r *http.Request) error {
	id, path, err := s.place(r, "")
	if err != nil {
		return err
	}
	body := http.MaxBytesReader(w, r.Body, maxFile)
	info, err := s.Service.WriteFile(r.Context(), id, path, body, guest.WriteOptions{Owner: user, MakeParents: true})
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, map[string]any{"path": path, "bytes": info.Size, "sha256": info.SHA256})
	return nil
}

func (s *server) removeFile(w http.ResponseWriter, r *http.Request) error {
	id, path, err := s.place(r, "")
	if err == nil {
		err = s.Service.Remove(r.Context(), id, path, true)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type fileBody struct {
	Name  string `json:"name"`
	IsDir bool   `json:"is_dir"`
	Size  int64  `json:"size"`
	Mode  string `json:"mode"`
	MTime int64  `json:"mtime"` // seconds since 1970
}

func fileOf(f guest.FileInfo) fileBody {
	return fileBody{f.Name, f.Type == guest.TypeDir, f.Size, "0" + strconv.FormatUint(uint64(f.Mode.Perm()), 8), f.ModTime.Unix()}
}

func (s *server) listFiles(w http.ResponseWriter, r *http.Request) error {
	id, path, err := s.place(r, "/")
	if err != nil {
		return err
	}
	files, err := s.Service.List(r.Context(), id, path)
	if err != nil {
		return err
	}
	entries := []fileBody{}
	for _, f := range files {
		entries = append(entries, fileOf(f))
	}
	s.reply(w, http.StatusOK, map[string]any{"path": path, "entries": entries})
	return nil
}

func (s *server) stat(w http.ResponseWriter, r *http.Request) error {
	id, path, err := s.place(r, "")
	if err != nil {
		return err
	}
	info, err := s.Service.Stat(r.Context(), id, path)
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, fileOf(info))
	return nil
}

// ports are those on which somebody listens in the sandbox, by its own account.
func (s *server) ports(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	res, err := s.Service.Exec(r.Context(), rec.ID, sandboxes.ExecRequest{
		Shell: "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null", User: user, Limits: guest.Limits{Wall: portsWait, Output: 1 << 20},
	})
	if err != nil {
		return err
	}
	list := []map[string]any{}
	for _, port := range listening(string(res.Stdout)) {
		list = append(list, map[string]any{
			"port": port, "label": "", "listening": true, "source": "detected",
			"proxy_url": "/v1/sandboxes/" + rec.ID + "/proxy/" + strconv.Itoa(port) + "/",
		})
	}
	s.reply(w, http.StatusOK, list)
	return nil
}

// listening reads the ports of sockets that listen from the kernel's tables.
func listening(tables string) (ports []int) {
	const listens = "0A"
	for lines := bufio.NewScanner(strings.NewReader(tables)); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 4 || words[3] != listens {
			continue
		}
		i := strings.LastIndexByte(words[1], ':')
		port, err := strconv.ParseUint(words[1][i+1:], 16, 16)
		if err == nil && port > 0 {
			ports = append(ports, int(port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

func (s *server) proxy(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		return fault.Errorf(fault.Invalid, "%.20q is no port", r.PathValue("port"))
	}
	httpapi.PortProxy(s.Service, rec.ID, port, r.PathValue("path"), s.Log, s.fail).ServeHTTP(w, r)
	return nil
}
