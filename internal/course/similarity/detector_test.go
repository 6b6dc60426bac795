package similarity

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/course"
	"assay/internal/fault"
)

// samples gives the files of an archive by their folder.
func samples(t testing.TB, name string) map[string][]course.File {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]course.File{}
	for _, f := range a.Files {
		dir, base := path.Split(f.Name)
		dir = strings.TrimSuffix(dir, "/")
		all[dir] = append(all[dir], course.File{Name: base, Data: f.Data})
	}
	return all
}

func compare(t testing.TB, o Options, folders map[string][]course.File, ids ...string) Result {
	t.Helper()
	d, err := NewDetector(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if folders[id] == nil {
			t.Fatalf("there is no sample %s", id)
		}
		d.Add(course.Submission{ID: id, Files: folders[id]})
	}
	return d.Result()
}

// TestCopies wants each disguise found, and nobody else.
func TestCopies(t *testing.T) {
	t.Parallel()
	all := samples(t, "python.txtar")
	ids := []string{"own_1", "own_2", "own_3", "original", "copy_renamed", "copy_reordered", "copy_dead_code"}
	r := compare(t, Options{Starter: all["starter"], Min: 0.5}, all, ids...)
	copies := []string{"copy_dead_code", "copy_renamed", "copy_reordered", "original"}
	if len(r.Clusters) != 1 || !slices.Equal(r.Clusters[0].Members, copies) || r.Clusters[0].Pairs != 6 {
		t.Errorf("clusters %+v", r.Clusters)
	}
	for _, p := range r.Pairs {
		t.Logf("%-15s %-15s %.2f %.2f, %d regions", p.A, p.B, p.AInB, p.BInA, len(p.Regions))
		if p.Similarity < 0.75 {
			t.Errorf("%s and %s: %.2f only", p.A, p.B, p.Similarity)
		}
	}
	if r.Compared != len(ids) {
		t.Errorf("%d compared", r.Compared)
	}
	far := compare(t, Options{Starter: all["starter"]}, all, "own_1", "own_2", "own_3", "original")
	for _, p := range far.Pairs {
		t.Logf("apart: %s %s %.2f", p.A, p.B, p.Similarity)
		if p.Similarity > 0.25 {
			t.Errorf("%s and %s were written apart: %.2f", p.A, p.B, p.Similarity)
		}
	}
}

// TestStarterCounts shows what the subtraction is for: without it those who
// worked alone look alike.
func TestStarterCounts(t *testing.T) {
	t.Parallel()
	all := samples(t, "python.txtar")
	r := compare(t, Options{Min: 0.2}, all, "own_1", "own_2")
	if len(r.Pairs) != 1 {
		t.Fatalf("pairs %+v", r.Pairs)
	}
	r = compare(t, Options{Min: 0.2, Starter: all["starter"]}, all, "own_1", "own_2")
	if len(r.Pairs) != 0 {
		t.Errorf("pairs %+v", r.Pairs)
	}
	r = compare(t, Options{Starter: all["starter"]}, all, "starter", "own_1")
	if r.Compared != 1 || !slices.Equal(r.Notes, []string{"starter is not compared: it has too little code of its own"}) {
		t.Errorf("%d compared, notes %q", r.Compared, r.Notes)
	}
}

// TestDirections says who has what of whom.
func TestDirections(t *testing.T) {
	t.Parallel()
	all := samples(t, "python.txtar")
	r := compare(t, Options{Starter: all["starter"]}, all, "original", "copy_dead_code")
	if p := r.Pairs[0]; p.AInB < 0.8 || p.BInA > 0.7 || p.Similarity != p.AInB {
		t.Errorf("%+v", p)
	}
}

func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	all := samples(t, "others.txtar")
	for _, lang := range []string{"java", "c", "javascript", "lua"} {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			r := compare(t, Options{}, all, lang+"/original", lang+"/copy", lang+"/own")
			for _, p := range r.Pairs {
				t.Logf("%s %s %.2f %.2f", p.A, p.B, p.AInB, p.BInA)
				if copied := !strings.HasSuffix(p.B, "own"); copied && p.Similarity < 0.7 || !copied && p.Similarity > 0.2 {
					t.Errorf("%s and %s: %.2f", p.A, p.B, p.Similarity)
				}
			}
			if len(r.Pairs) == 0 || r.Pairs[0].B != lang+"/copy" {
				t.Error("the copy is not found")
			}
		})
	}
}

// TestRegions names the lines of both sides.
func TestRegions(t *testing.T) {
	t.Parallel()
	all := samples(t, "python.txtar")
	r := compare(t, Options{Starter: all["starter"]}, all, "original", "copy_reordered")
	type lines struct{ a, b string }
	var got []lines
	for _, g := range r.Pairs[0].Regions {
		got = append(got, lines{fmt.Sprintf("%d-%d", g.A.From, g.A.To), fmt.Sprintf("%d-%d", g.B.From, g.B.To)})
		if len(g.A.Text) != g.A.To-g.A.From+1 || len(g.B.Text) != g.B.To-g.B.From+1 || g.Tokens < gram || g.A.File != "stock.py" {
			t.Errorf("region %+v", g)
		}
	}
	want := []lines{{"19-31", "39-51"}, {"60-69", "4-12"}, {"42-57", "12-26"}, {"34-42", "29-35"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(lines{})); diff != "" {
		t.Error(diff)
	}
	for i := 1; i < len(r.Pairs[0].Regions); i++ {
		if r.Pairs[0].Regions[i].Tokens > r.Pairs[0].Regions[i-1].Tokens {
			t.Error("regions are not sorted by length")
		}
	}
}

// TestCommon drops what much of a large class has, and keeps the two who share
// more.
func TestCommon(t *testing.T) {
	t.Parallel()
	d, err := NewDetector(Options{Min: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	idiom := nonsense(0)
	for i := range 40 {
		text := idiom + nonsense(i+1)
		if i == 39 {
			text = idiom + nonsense(39) // from the one before
		}
		d.Add(course.Submission{ID: fmt.Sprintf("s%02d", i), Files: []course.File{{Name: "a.py", Data: []byte(text)}}})
	}
	r := d.Result()
	if len(r.Pairs) != 1 || r.Pairs[0].A != "s38" || r.Pairs[0].B != "s39" {
		t.Errorf("pairs %+v", r.Pairs)
	}
}

// nonsense is a short Python program whose shape depends on the seed.
func nonsense(seed int) string { return pythonOf(seed, 30) }

func TestUnknownLanguage(t *testing.T) {
	t.Parallel()
	if _, err := NewDetector(Options{Language: "klingon"}); !fault.Is(err, fault.NotFound) || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"python", "Python3", "c++", "java", "ts", ".go", "rs", "haskell"} {
		if _, err := NewDetector(Options{Language: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneLanguage leaves out files of others, and what is no program.
func TestOneLanguage(t *testing.T) {
	t.Parallel()
	d, err := NewDetector(Options{Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b"} {
		d.Add(course.Submission{ID: id, Files: []course.File{{Name: "x.js", Data: []byte(nonsense(1))}, {Name: "data.csv", Data: []byte(nonsense(1))}}})
	}
	if r := d.Result(); r.Compared != 0 || len(r.Notes) != 2 {
		t.Errorf("%+v", r)
	}
}

// TestTables compares programs that are mostly long tables of equal lines, which
// fit together in hundreds of thousands of ways; it ends soon nevertheless.
func TestTables(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&table, "    f(%d, [%s], b=%s),\n", i, strings.Repeat("1, ", i%23), strings.Repeat("a.", i%7)+"c")
	}
	d, err := NewDetector(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		text := nonsense(i) + "rows = [\n" + table.String() + "]\n" + "zeros = [" + strings.Repeat("0, ", 40_000) + "]\n" + nonsense(i+100)
		d.Add(course.Submission{ID: fmt.Sprint(i), Files: []course.File{{Name: "a.py", Data: []byte(text)}}})
	}
	r := d.Result()
	if len(r.Pairs) != 15 {
		t.Fatalf("%d pairs", len(r.Pairs))
	}
	for _, p := range r.Pairs {
		if len(p.Regions) == 0 || p.Regions[0].Tokens < 50_000 {
			t.Errorf("%s and %s: regions %d", p.A, p.B, len(p.Regions))
		}
	}
}

// TestSame gives the same for the same, bit for bit.
func TestSame(t *testing.T) {
	t.Parallel()
	all := samples(t, "python.txtar")
	ids := []string{"own_1", "own_2", "own_3", "original", "copy_renamed", "copy_reordered", "copy_dead_code"}
	first := compare(t, Options{Starter: all["starter"]}, all, ids...)
	for range 20 {
		if diff := cmp.Diff(first, compare(t, Options{Starter: all["starter"]}, all, ids...)); diff != "" {
			t.Fatal(diff)
		}
	}
}
