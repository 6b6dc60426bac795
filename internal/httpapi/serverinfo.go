package httpapi

import (
	"context"
	"time"

	"assay/api"
	"assay/internal/account"
)

// ServerInfo tells about the server itself.
type ServerInfo interface {
	// About is for everybody.
	About() api.Server
	Nodes(ctx context.Context) ([]NodeState, error)
}

// NodeState is a host that runs sandboxes.
type NodeState struct {
	Name  string
	Alive bool
	Seen  time.Time
	// Processors is how many submissions it judges at once, Memory what its
	// sandboxes may hold in bytes, Jobs what it has taken.
	Processors, Sandboxes, Jobs int
	Memory                      int64
}

type serverHandlers struct{ info ServerInfo }

func (h serverHandlers) GetServer(context.Context, api.GetServerRequestObject) (api.GetServerResponseObject, error) {
	return api.GetServer200JSONResponse(h.info.About()), nil
}

func (h serverHandlers) ListNodes(ctx context.Context, _ api.ListNodesRequestObject) (api.ListNodesResponseObject, error) {
	if err := account.May(account.ActorOf(ctx), account.List, account.Thing{Kind: account.NodeThing}); err != nil {
		return nil, err
	}
	nodes, err := h.info.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	list := api.NodeList{Items: []api.Node{}}
	for _, n := range nodes {
		list.Items = append(list.Items, api.Node{
			Name: n.Name, Alive: n.Alive, SeenAt: n.Seen, Processors: n.Processors, MemoryBytes: n.Memory, Sandboxes: n.Sandboxes, Jobs: n.Jobs,
		})
	}
	return api.ListNodes200JSONResponse(list), nil
}
