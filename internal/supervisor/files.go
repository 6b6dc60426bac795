package supervisor

import (
	"io/fs"
	"net/http"
	"strconv"

	"assay/internal/fault"
	"assay/internal/guest"
)

func (s *server) stat(w http.ResponseWriter, r *http.Request) error {
	sb, ctx, done, err := s.inside(r, "look at file")
	if err != nil {
		return err
	}
	defer done()
	info, err := sb.Guest().Stat(ctx, r.URL.Query().Get("path"))
	if err != nil {
		return s.settle(sb, err)
	}
	return reply(w, info)
}

func (s *server) readFile(w http.ResponseWriter, r *http.Request) error {
	sb, ctx, done, err := s.inside(r, "read file")
	if err != nil {
		return err
	}
	defer done()
	body, err := sb.Guest().ReadFile(ctx, r.URL.Query().Get("path"))
	if err != nil {
		return s.settle(sb, err)
	}
	defer body.Close()
	newStream(w, r).copyOut(body)
	return nil
}

func (s *server) readTree(w http.ResponseWriter, r *http.Request) error {
	sb, ctx, done, err := s.inside(r, "read tree")
	if err != nil {
		return err
	}
	defer done()
	body, err := sb.Guest().ReadTree(ctx, r.URL.Query().Get("path"))
	if err != nil {
		return s.settle(sb, err)
	}
	defer body.Close()
	newStream(w, r).copyOut(body)
	return nil
}

func (s *server) writeFile(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	mode, err := strconv.ParseUint(q.Get("mode"), 8, 16)
	if err != nil {
		return fault.Errorf(fault.Invalid, "mode of the file: %w", err)
	}
	sb, ctx, done, err := s.inside(r, "write file")
	if err != nil {
		return err
	}
	defer done()
	info, err := sb.Guest().WriteFile(ctx, q.Get("path"), r.Body, guest.WriteOptions{Mode: fs.FileMode(mode), Owner: q.Get("owner")})
	if err != nil {
		return s.settle(sb, err)
	}
	return reply(w, info)
}

func (s *server) writeTree(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	sb, ctx, done, err := s.inside(r, "write tree")
	if err != nil {
		return err
	}
	defer done()
	info, err := sb.Guest().WriteTree(ctx, q.Get("path"), r.Body, q.Get("owner"))
	if err != nil {
		return s.settle(sb, err)
	}
	return reply(w, info)
}
