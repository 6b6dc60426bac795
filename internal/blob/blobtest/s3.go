package blobtest

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// Server is S3 within this process, with one empty bucket.
type Server struct {
	// URL is for blob.OpenS3.
	URL    string
	server *httptest.Server
	memory *s3mem.Backend
}

const bucket = "assay"

// S3 starts a server; it is stopped by the test's cleanup.
func S3(t testing.TB) *Server {
	t.Helper()
	memory := s3mem.New()
	if err := memory.CreateBucket(bucket); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(memory).Server())
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	return &Server{"s3://key:hush@" + host + "/" + bucket + "/some/where?insecure=1&region=us-east-1", server, memory}
}

// Stop ends the server with all its connections.
func (s *Server) Stop() {
	s.server.CloseClientConnections()
	s.server.Close()
}

// Spoil gives an object other bytes.
func (s *Server) Spoil(t testing.TB, digest string, other []byte) {
	t.Helper()
	key := "some/where/" + strings.TrimPrefix(digest, "sha256:")
	_, err := s.memory.PutObject(bucket, key, map[string]string{"Last-Modified": "Mon, 2 Jan 2006 15:04:05 GMT"}, io.NopCloser(bytes.NewReader(other)), int64(len(other)), nil)
	if err != nil {
		t.Fatal(err)
	}
}
