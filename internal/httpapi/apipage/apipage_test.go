package apipage

import (
	"net/http/httptest"
	"strings"
	"testing"

	"assay/api"
)

func TestEveryCallIsOnThePage(t *testing.T) {
	t.Parallel()
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/api/docs", nil))
	page := w.Body.String()
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			if !strings.Contains(page, `id="`+op.OperationID+`"`) {
				t.Errorf("%s %s (%s) is not on the page: it has no tag of the contract", method, path, op.OperationID)
			}
		}
	}
	for _, name := range []string{"/api/docs/page.css", "/api/docs/page.js"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", name, nil))
		if w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	// The policy of the pages allows neither.
	for _, word := range []string{"<script>", " style=", " onclick="} {
		if strings.Contains(page, word) {
			t.Errorf("the page has %q", word)
		}
	}
}

func TestParagraphs(t *testing.T) {
	t.Parallel()
	got := paragraphs("a **b** `c<d>`\n\ne ** f")
	if len(got) != 2 || got[0] != "a <strong>b</strong> <code>c&lt;d&gt;</code>" || got[1] != "e ** f" {
		t.Errorf("got %q", got)
	}
}
