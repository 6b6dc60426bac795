package cli

import (
	"context"
	"strings"

	"assay/internal/netguard"
	"assay/internal/sandbox"
	"assay/internal/supervisor"
)

// networkFlags say what a new sandbox may reach.
type networkFlags struct {
	Allow   []string `name:"allow" sep:"none" placeholder:"HOST[:PORT]" help:"A name that may be reached, through the proxy (ports 80 and 443 without one); may be repeated. *.example.org is all names below."`
	Phase   string   `name:"network-phase" enum:"always,setup" default:"always" help:"setup: shut the network when the first terminal is opened, or by 'assay sandbox network ID --end-setup'."`
	Network bool     `name:"network" help:"Give the machine an interface though nothing is allowed yet."`
}

// policy is nil for no network at all.
func (f networkFlags) policy() *sandbox.NetworkPolicy {
	if len(f.Allow) == 0 && !f.Network {
		return nil
	}
	return &sandbox.NetworkPolicy{Allow: f.Allow, Phase: sandbox.NetworkPhase(f.Phase)}
}

type sandboxNetworkCmd struct {
	oneSandbox
	Allow    []string `name:"allow" sep:"none" placeholder:"HOST[:PORT]" xor:"what" help:"Let it reach these names and no others; may be repeated."`
	Off      bool     `name:"off" xor:"what" help:"Let it reach nothing."`
	EndSetup bool     `name:"end-setup" xor:"what" help:"Shut what was open for its setup only."`
}

func (sandboxNetworkCmd) Help() string {
	return `The change holds at once: connections that are not permitted any more are cut. Only a sandbox that was created with --allow or --network has an interface. Without a flag the present policy is shown; attempts are in 'assay sandbox events ID'.`
}

func (c sandboxNetworkCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	var sb supervisor.Sandbox
	switch {
	case len(c.Allow) > 0:
		sb, err = client.SetNetwork(ctx, c.ID, supervisor.NetworkRequest{Policy: &sandbox.NetworkPolicy{Allow: c.Allow}})
	case c.Off:
		sb, err = client.SetNetwork(ctx, c.ID, supervisor.NetworkRequest{Policy: &sandbox.NetworkPolicy{}})
	case c.EndSetup:
		sb, err = client.SetNetwork(ctx, c.ID, supervisor.NetworkRequest{})
	default:
		sb, err = client.Get(ctx, c.ID)
	}
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(sb)
	}
	env.UI.Printf("%s\n", reach(sb.Network))
	return nil
}

// reach says in words what a policy permits.
func reach(p *sandbox.NetworkPolicy) string {
	switch {
	case p == nil:
		return "no network"
	case len(p.Allow) == 0:
		return "nothing"
	case p.Phase == netguard.Setup:
		return "until the end of its setup: " + strings.Join(p.Allow, " ")
	default:
		return strings.Join(p.Allow, " ")
	}
}
