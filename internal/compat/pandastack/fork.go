package pandastack

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// The labels by which children know where they are from.
const (
	labelParent = "fork_parent_id"
	labelTree   = "fork_tree_id"
)

type forkBody struct {
	Count int `json:"count"`
	// Mode is accepted and has no meaning: every fork here has memory and disk.
	Mode     string            `json:"mode"`
	Metadata map[string]string `json:"metadata"`
	TTL      float64           `json:"ttl_seconds"`
}

// forkBodyOf reads and checks how many children are wanted, and their labels.
func forkBodyOf(w http.ResponseWriter, r *http.Request, parent, tree string) (b forkBody, err error) {
	b.Count = 1
	if err := decode(w, r, &b); err != nil {
		return b, err
	}
	if b.Count < 1 || b.Count > maxForks {
		return b, fault.Errorf(fault.Invalid, "a fork has 1 to %d children, not %d", maxForks, b.Count)
	}
	labels := map[string]string{}
	maps.Copy(labels, b.Metadata)
	for name, value := range map[string]string{labelParent: parent, labelTree: tree} {
		if value != "" {
			labels[name] = value
		}
	}
	b.Metadata = labels
	return b, nil
}

func (s *server) children(w http.ResponseWriter, r *http.Request, tree string) (rec sandboxes.Record, made []sandboxes.Child, err error) {
	if rec, err = s.find(r); err != nil {
		return rec, nil, err
	}
	b, err := forkBodyOf(w, r, rec.ID, tree)
	if err != nil {
		return rec, nil, err
	}
	// A child lives as long without a call as its parent.
	terms := sandboxes.Terms{TTL: s.Service.MaxTTL(), Idle: rec.Idle, Labels: b.Metadata}
	made, err = s.Service.Fork(r.Context(), rec.ID, sandboxes.ForkRequest{Count: b.Count, Terms: terms, Key: r.Header.Get("Idempotency-Key")})
	return rec, made, err
}

// noneMade is why a fork failed that has no child at all.
func noneMade(made []sandboxes.Child) error {
	for _, c := range made {
		if c.Sandbox != nil {
			return nil
		}
	}
	why := "nothing was asked for"
	if len(made) > 0 {
		why = made[0].Problem
	}
	return fault.Errorf(fault.Exhausted, "no child was made: %s", why)
}

func (s *server) fork(w http.ResponseWriter, r *http.Request) error {
	parent, made, err := s.children(w, r, "")
	if err == nil {
		err = noneMade(made)
	}
	if err != nil {
		return err
	}
	s.reply(w, http.StatusCreated, forkAnswer(parent.ID, "", made))
	return nil
}

func forkAnswer(parent, snapshot string, made []sandboxes.Child) map[string]any {
	ids, problems := []string{}, []map[string]any{}
	var first *view
	for i, c := range made {
		if c.Sandbox == nil {
			problems = append(problems, map[string]any{"index": i, "err": tame.Replace(c.Problem)})
			continue
		}
		ids = append(ids, c.Sandbox.ID)
		if first == nil {
			v := viewOf(*c.Sandbox)
			first = &v
		}
	}
	return map[string]any{
		"parent_id": parent, "snapshot_id": snapshot, "children": ids, "sandbox": first, "errors": problems,
		"at": time.Now().UTC().Format(time.RFC3339Nano),
	}
}

func (s *server) forkTree(w http.ResponseWriter, r *http.Request) error {
	tree := "tree-" + strings.ToLower(rand.Text()[:16])
	parent, made, err := s.children(w, r, tree)
	if err == nil {
		err = noneMade(made)
	}
	if err != nil {
		return err
	}
	children, problems := []view{}, []map[string]any{}
	for i, c := range made {
		if c.Sandbox == nil {
			problems = append(problems, map[string]any{"index": i, "err": tame.Replace(c.Problem)})
			continue
		}
		children = append(children, viewOf(*c.Sandbox))
	}
	s.reply(w, http.StatusCreated, map[string]any{
		"tree_id": tree, "parent_id": parent.ID, "snapshot_id": "", "children": children, "errors": problems,
		"at": time.Now().UTC().Format(time.RFC3339Nano),
	})
	return nil
}

// promote keeps one child of a fork tree and, if asked, ends the others.
func (s *server) promote(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Tree    string `json:"tree_id"`
		Cleanup bool   `json:"cleanup_siblings"`
	}
	if err := decode(w, r, &req); err != nil {
		return err
	}
	winner, err := s.find(r)
	if err != nil {
		return err
	}
	tree := winner.Labels[labelTree]
	if req.Tree != "" && req.Tree != tree {
		return fault.Errorf(fault.Invalid, "sandbox %s is not of the tree %.80q", winner.ID, req.Tree)
	}
	deleted, failures := []string{}, map[string]string{}
	if req.Cleanup && tree != "" {
		siblings, err := s.all(r.Context(), map[string]string{labelTree: tree})
		if err != nil {
			return err
		}
		for _, sibling := range siblings {
			if sibling.ID == winner.ID {
				continue
			}
			if err := s.Service.Kill(context.WithoutCancel(r.Context()), sibling.ID); err != nil {
				_, b := s.describe(r, err)
				failures[sibling.ID] = b.Error
				continue
			}
			deleted = append(deleted, sibling.ID)
		}
	}
	s.reply(w, http.StatusOK, map[string]any{"winner": winner.ID, "tree_id": tree, "deleted": deleted, "failures": failures})
	return nil
}

type snapshotBody struct {
	ID        string `json:"id"`
	SandboxID string `json:"sandbox_id"`
	CreatedAt string `json:"created_at"`
	Template  string `json:"template"`
	SizeBytes int64  `json:"size_bytes"`
	Workspace string `json:"workspace"`
}

func snapshotOf(n sandboxes.Snapshot) snapshotBody {
	return snapshotBody{n.ID, n.Sandbox, n.Taken.UTC().Format(time.RFC3339Nano), n.Template, n.Bytes, n.Owner}
}

func (s *server) snapshot(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	snap, err := s.Service.Snapshot(r.Context(), rec.ID, sandboxes.SnapshotRequest{Labels: rec.Labels, Key: r.Header.Get("Idempotency-Key")})
	if err != nil {
		return err
	}
	s.reply(w, http.StatusCreated, snapshotOf(snap))
	return nil
}

func (s *server) snapshots(w http.ResponseWriter, r *http.Request) error {
	me := account.ActorOf(r.Context()).User
	list := []snapshotBody{}
	for q := (sandboxes.Query{Owner: &me, Sandbox: r.URL.Query().Get("sandbox_id"), Limit: sandboxes.MaxPage}); ; {
		rows, err := s.Service.Snapshots(r.Context(), q)
		if err != nil {
			return err
		}
		for _, row := range rows {
			list = append(list, snapshotOf(row))
		}
		if len(rows) < q.Limit {
			break
		}
		q.Before, q.BeforeID = rows[len(rows)-1].Taken, rows[len(rows)-1].ID
	}
	s.reply(w, http.StatusOK, list)
	return nil
}

func (s *server) getSnapshot(w http.ResponseWriter, r *http.Request) error {
	snap, err := s.Service.GetSnapshot(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	s.reply(w, http.StatusOK, snapshotOf(snap))
	return nil
}

func (s *server) removeSnapshot(w http.ResponseWriter, r *http.Request) error {
	if err := s.Service.RemoveSnapshot(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// forkSnapshot is more than the format has: several sandboxes of one snapshot.
func (s *server) forkSnapshot(w http.ResponseWriter, r *http.Request) error {
	b, err := forkBodyOf(w, r, "", "")
	if err != nil {
		return err
	}
	terms, err := s.terms(b.TTL, false, b.Metadata)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	made, err := s.Service.ForkSnapshot(r.Context(), id, sandboxes.ForkRequest{Count: b.Count, Terms: terms, Key: r.Header.Get("Idempotency-Key")})
	if err == nil {
		err = noneMade(made)
	}
	if err != nil {
		return err
	}
	s.reply(w, http.StatusCreated, forkAnswer("", id, made))
	return nil
}

type templateBody struct {
	Name      string   `json:"name"`
	SizeBytes int64    `json:"size_bytes"`
	CPU       int      `json:"cpu"`
	MemoryMB  int64    `json:"memory_mb"`
	Languages []string `json:"languages"`
	Built     bool     `json:"built"`
}

func (s *server) template(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	asked := name
	if other := s.Templates[name]; other != "" {
		name = other
	}
	t, err := s.Service.OneTemplate(r.Context(), name)
	if err != nil {
		return err
	}
	b := templateOf(t)
	b.Name = asked
	s.reply(w, http.StatusOK, b)
	return nil
}

func templateOf(t sandboxes.Template) templateBody {
	return templateBody{t.Name, t.ImageBytes, t.Shape.VCPUs, t.Shape.Memory >> 20, t.Languages, t.Digest != ""}
}

func (s *server) templates(w http.ResponseWriter, r *http.Request) error {
	all, err := s.Service.AllTemplates(r.Context())
	if err != nil {
		return err
	}
	list := []templateBody{}
	for _, t := range all {
		list = append(list, templateOf(t))
	}
	s.reply(w, http.StatusOK, list)
	return nil
}
