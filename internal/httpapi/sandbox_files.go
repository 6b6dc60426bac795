package httpapi

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"

	"assay/api"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandboxes"
)

// sent is a stream of bytes as an answer. What breaks it off breaks the
// connection: half a file must not look like a whole one.
type sent struct {
	log  *slog.Logger
	kind string
	body io.ReadCloser
}

func (a sent) write(w http.ResponseWriter) error {
	defer a.body.Close()
	w.Header().Set("Content-Type", a.kind)
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, a.body); err != nil {
		a.log.Warn("a file could not be sent to its end", "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (a sent) VisitReadSandboxFileResponse(w http.ResponseWriter) error { return a.write(w) }
func (a sent) VisitReadSandboxTreeResponse(w http.ResponseWriter) error { return a.write(w) }

func (h sandboxHandlers) ReadSandboxFile(ctx context.Context, r api.ReadSandboxFileRequestObject) (api.ReadSandboxFileResponseObject, error) {
	length := r.Params.Length
	if length == 0 {
		length = -1
	}
	body, err := h.service.ReadFileRange(ctx, r.ID, r.Params.Path, r.Params.Offset, length)
	if err != nil {
		return nil, err
	}
	return sent{h.log, "application/octet-stream", body}, nil
}

func (h sandboxHandlers) ReadSandboxTree(ctx context.Context, r api.ReadSandboxTreeRequestObject) (api.ReadSandboxTreeResponseObject, error) {
	body, err := h.service.ReadTree(ctx, r.ID, r.Params.Path)
	if err != nil {
		return nil, err
	}
	return sent{h.log, "application/x-tar", body}, nil
}

// modeOf reads permission bits; "" is what the guest takes for nothing said.
func modeOf(octal string) (fs.FileMode, error) {
	if octal == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fault.Errorf(fault.Invalid, "mode: %.10q are no permission bits in octal", octal)
	}
	return fs.FileMode(n), nil
}

func fileView(f guest.FileInfo) api.FileInfo {
	return api.FileInfo{
		Name: f.Name, Type: api.FileInfoType(f.Type), SizeBytes: f.Size, Mode: strconv.FormatUint(uint64(f.Mode.Perm()), 8), UID: int64(f.UID),
		ModifiedAt: f.ModTime.UTC(), LinkTarget: f.LinkTarget, Sha256: f.SHA256,
	}
}

func (h sandboxHandlers) WriteSandboxFile(ctx context.Context, r api.WriteSandboxFileRequestObject) (api.WriteSandboxFileResponseObject, error) {
	mode, err := modeOf(r.Params.Mode)
	if err != nil {
		return nil, err
	}
	info, err := h.service.WriteFile(ctx, r.ID, r.Params.Path, r.Body, guest.WriteOptions{Mode: mode, Owner: string(r.Params.Owner), MakeParents: unlessSaid(r.Params.Parents)})
	if err != nil {
		return nil, err
	}
	return api.WriteSandboxFile200JSONResponse(fileView(info)), nil
}

func (h sandboxHandlers) RemoveSandboxFile(ctx context.Context, r api.RemoveSandboxFileRequestObject) (api.RemoveSandboxFileResponseObject, error) {
	if err := h.service.Remove(ctx, r.ID, r.Params.Path, r.Params.Recursive); err != nil {
		return nil, err
	}
	return api.RemoveSandboxFile204Response{}, nil
}

func (h sandboxHandlers) StatSandboxFile(ctx context.Context, r api.StatSandboxFileRequestObject) (api.StatSandboxFileResponseObject, error) {
	info, err := h.service.Stat(ctx, r.ID, r.Params.Path)
	if err != nil {
		return nil, err
	}
	return api.StatSandboxFile200JSONResponse(fileView(info)), nil
}

func (h sandboxHandlers) ListSandboxFiles(ctx context.Context, r api.ListSandboxFilesRequestObject) (api.ListSandboxFilesResponseObject, error) {
	files, err := h.service.List(ctx, r.ID, r.Params.Path)
	if err != nil {
		return nil, err
	}
	list := api.FileList{Items: []api.FileInfo{}}
	for _, f := range files {
		list.Items = append(list.Items, fileView(f))
	}
	return api.ListSandboxFiles200JSONResponse(list), nil
}

func (h sandboxHandlers) MakeSandboxDir(ctx context.Context, r api.MakeSandboxDirRequestObject) (api.MakeSandboxDirResponseObject, error) {
	mode, err := modeOf(r.Params.Mode)
	if err != nil {
		return nil, err
	}
	if err := h.service.MakeDir(ctx, r.ID, r.Params.Path, mode, string(r.Params.Owner), unlessSaid(r.Params.Parents)); err != nil {
		return nil, err
	}
	return api.MakeSandboxDir204Response{}, nil
}

func (h sandboxHandlers) RenameSandboxFile(ctx context.Context, r api.RenameSandboxFileRequestObject) (api.RenameSandboxFileResponseObject, error) {
	if err := h.service.Rename(ctx, r.ID, r.Params.Path, r.Params.To); err != nil {
		return nil, err
	}
	return api.RenameSandboxFile204Response{}, nil
}

func (h sandboxHandlers) ChmodSandboxFile(ctx context.Context, r api.ChmodSandboxFileRequestObject) (api.ChmodSandboxFileResponseObject, error) {
	mode, err := modeOf(r.Params.Mode)
	if err != nil {
		return nil, err
	}
	if err := h.service.Chmod(ctx, r.ID, r.Params.Path, mode); err != nil {
		return nil, err
	}
	return api.ChmodSandboxFile204Response{}, nil
}

func (h sandboxHandlers) WriteSandboxTree(ctx context.Context, r api.WriteSandboxTreeRequestObject) (api.WriteSandboxTreeResponseObject, error) {
	info, err := h.service.WriteTree(ctx, r.ID, r.Params.Path, r.Body, string(r.Params.Owner))
	if err != nil {
		return nil, err
	}
	return api.WriteSandboxTree200JSONResponse{Entries: info.Entries, Files: info.Files, SizeBytes: info.Bytes}, nil
}

func (h sandboxHandlers) WatchSandbox(ctx context.Context, r api.WatchSandboxRequestObject) (api.WatchSandboxResponseObject, error) {
	spec := guest.WatchSpec{ID: r.Params.Watch, Dir: r.Params.Path, Exclude: r.Params.Exclude}
	if err := spec.Check(); err != nil {
		return nil, err
	}
	w, err := h.service.Watch(ctx, r.ID, spec, r.Params.After)
	if err != nil {
		return nil, err
	}
	body := stream(ctx, func(ctx context.Context, send func(Event) error) error {
		defer h.closeWatch(ctx, w)
		stop := context.AfterFunc(ctx, w.Stop)
		defer stop()
		if err := send(Event{"watching", map[string]string{"id": w.ID()}}); err != nil {
			return err
		}
		for {
			e, err := w.Next()
			if err != nil {
				return send(h.errorEvent(ctx, err))
			}
			if err := send(Event{"change", api.FileEvent{
				Seq: e.Seq, Op: api.FileEventOp(e.Op), Path: e.Path, Type: string(e.Type), Count: e.Count, At: e.Time.UTC(), Reason: e.Reason,
			}}); err != nil {
				return err
			}
		}
	})
	return sentEvents{body}, nil
}

func (h sandboxHandlers) closeWatch(ctx context.Context, w *sandboxes.Watch) {
	if err := w.Close(); err != nil {
		h.log.WarnContext(ctx, "end a watch", "err", err)
	}
}

// unlessSaid is a parameter that is true when nothing is said.
func unlessSaid(b *bool) bool { return b == nil || *b }
