package app

import (
	"cmp"
	"context"
	"net"
	"net/url"

	"assay/internal/fault"
	"assay/internal/httpapi"
)

// listenForPreviews listens where the configuration says, if it says so.
func (s *Server) listenForPreviews(ctx context.Context) (err error) {
	address := s.config.PreviewAddress()
	if address == "" {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fault.Errorf(fault.Unavailable, "listen on %s for previews: %w", address, err).WithHint("choose another --preview-listen ADDRESS:PORT, or off")
	}
	s.previewer = l
	return nil
}

// PreviewURL is what the addresses of previews are made of; "" is none. Where
// nothing else is said it is a name that every browser takes for its own host.
func (s *Server) PreviewURL() string {
	if s.previewer == nil {
		return ""
	}
	_, port, err := net.SplitHostPort(s.previewer.Addr().String())
	if err != nil {
		return ""
	}
	return cmp.Or(s.config.PreviewURL, "http://"+net.JoinHostPort("localhost", port))
}

// previews are the door's; nil is none.
func (s *Server) previews() (*httpapi.PreviewOptions, error) {
	text := s.PreviewURL()
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "preview-url: %w", err)
	}
	if public, err := url.Parse(s.URL()); err == nil && public.Host == u.Host {
		return nil, fault.Errorf(fault.Invalid, "preview-url: %s is where the API is reached", text).WithHint("give previews a host of their own, best below another domain")
	}
	return &httpapi.PreviewOptions{URL: u}, nil
}
