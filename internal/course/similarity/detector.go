package similarity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"assay/internal/course"
)

// Caps. What is above them is left out and named in Result.Notes.
const (
	MaxPrograms = 5000    // submissions; their pairs are counted in a square
	MaxFile     = 1 << 20 // bytes of one file
	MaxTokens   = 200_000 // of one file
	MaxPairs    = 500     // in a result
	maxRegions  = 100     // of a pair
	minShared   = 6       // fingerprints that a pair must share
	minPrints   = 6       // fingerprints that a submission needs
	commonFloor = 5       // submissions that may share a fingerprint before it loses weight
)

// Options say what is compared.
type Options struct {
	// Language is the one language that is compared, by name or ending; empty is
	// every file whose ending is that of a program.
	Language string
	// Starter is what the teacher handed out: it is nobody's own.
	Starter []course.File
	// Min is the similarity from which on a pair is reported, 0 to 1.
	Min float64
}

// Result is what was found. It is a lead for a person who reads both programs.
type Result struct {
	// Compared is how many submissions could be compared.
	Compared int `json:"compared"`
	// Pairs have the highest similarity first.
	Pairs    []Pair    `json:"pairs"`
	Clusters []Cluster `json:"clusters"`
	// Notes say what was left out.
	Notes []string `json:"notes"`
}

// Pair is two submissions that share code.
type Pair struct {
	A string `json:"a"`
	B string `json:"b"`
	// Similarity is the larger of the other two: who hides a copy in much code
	// of their own makes only one of them small.
	Similarity float64 `json:"similarity"`
	// AInB is the share of A's own code that B has too, 0 to 1; BInA the reverse.
	AInB float64 `json:"a_in_b"`
	BInA float64 `json:"b_in_a"`
	// Regions are the places, the longest first.
	Regions []Region `json:"regions"`
}

// Region is a run of tokens that both have, whatever names they use.
type Region struct {
	Tokens int  `json:"tokens"`
	A      Span `json:"a"`
	B      Span `json:"b"`
}

// Span is a part of a file. Lines count from 1, and both ends belong to it.
type Span struct {
	File string `json:"file"`
	From int    `json:"from"`
	To   int    `json:"to"`
	// Text are the lines, fit to be shown.
	Text []string `json:"-"`
}

// Cluster is a group of submissions that hang together by pairs.
type Cluster struct {
	Members []string `json:"members"`
	Pairs   int      `json:"pairs"`
	Highest float64  `json:"highest"`
}

// Detector collects submissions and compares them. It is for one goroutine.
type Detector struct {
	o       Options
	only    *language
	starter map[*language]map[uint64]bool
	all     []program
	notes   []string
}

// program is one submission as tokens.
type program struct {
	id     string
	files  []source
	prints map[uint64]bool
}

// source is one file of a program.
type source struct {
	name   string
	lang   *language
	text   string
	tokens []token
	// given marks tokens of the starter code.
	given  []bool
	prints []print
}

// NewDetector makes a detector. The error is NotFound for an unknown language.
func NewDetector(o Options) (*Detector, error) {
	d := &Detector{o: o, starter: map[*language]map[uint64]bool{}}
	if o.Language != "" {
		var err error
		if d.only, err = byName(o.Language); err != nil {
			return nil, err
		}
	}
	for _, f := range o.Starter {
		l := d.languageOf(f.Name)
		if l == nil {
			continue
		}
		if d.starter[l] == nil {
			d.starter[l] = map[uint64]bool{}
		}
		for _, h := range grams(l.tokens(string(f.Data), MaxTokens)) {
			d.starter[l][h] = true
		}
	}
	return d, nil
}

func (d *Detector) languageOf(name string) *language {
	l := byFile(name)
	if d.only != nil && l != d.only {
		return nil
	}
	return l
}

func (d *Detector) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

// Add takes one submission. Files that are no programs are passed over.
func (d *Detector) Add(s course.Submission) {
	if len(d.all) == MaxPrograms {
		d.note("%s is not compared: there are more than %d submissions", s.ID, MaxPrograms)
		return
	}
	p := program{id: s.ID, prints: map[uint64]bool{}}
	for _, f := range s.Files {
		l := d.languageOf(f.Name)
		if l == nil {
			continue
		}
		if len(f.Data) > MaxFile || !utf8.Valid(f.Data) && strings.Contains(string(f.Data), "\x00") {
			d.note("%s: %s is not compared: it is too large or no text", s.ID, f.Name)
			continue
		}
		p.files = append(p.files, d.read(f, l, p.prints))
	}
	if len(p.prints) < minPrints {
		d.note("%s is not compared: it has too little code of its own", s.ID)
		return
	}
	d.all = append(d.all, p)
}

// read takes the fingerprints of a file that are not the starter's.
func (d *Detector) read(f course.File, l *language, prints map[uint64]bool) source {
	out := source{name: f.Name, lang: l, text: string(f.Data)}
	out.tokens = l.tokens(out.text, MaxTokens)
	if len(out.tokens) == MaxTokens {
		d.note("%s is compared in part: it has more than %d tokens", f.Name, MaxTokens)
	}
	out.given = make([]bool, len(out.tokens))
	hashes := grams(out.tokens)
	starter := d.starter[l]
	for i, h := range hashes {
		if starter[h] {
			for j := i; j < i+gram; j++ {
				out.given[j] = true
			}
		}
	}
	for _, p := range winnow(hashes) {
		if !starter[p.hash] {
			out.prints = append(out.prints, p)
			prints[p.hash] = true
		}
	}
	return out
}

// Result compares all that was added.
func (d *Detector) Result() Result {
	r := Result{Compared: len(d.all), Pairs: []Pair{}, Clusters: []Cluster{}, Notes: append([]string{}, d.notes...)}
	weights := d.weights()
	shared, counts := d.shared(weights)
	own := make([]uint32, len(d.all))
	for i, p := range d.all {
		for h := range p.prints {
			own[i] += weights[h].value
		}
	}
	for i := range d.all {
		for j := i + 1; j < len(d.all); j++ {
			at := i*len(d.all) + j
			if counts[at] < minShared || own[i] == 0 || own[j] == 0 {
				continue
			}
			p := Pair{A: d.all[i].id, B: d.all[j].id, AInB: float64(shared[at]) / float64(own[i]), BInA: float64(shared[at]) / float64(own[j])}
			if p.Similarity = max(p.AInB, p.BInA); p.Similarity >= d.o.Min {
				r.Pairs = append(r.Pairs, p)
			}
		}
	}
	slices.SortStableFunc(r.Pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Similarity, a.Similarity), cmp.Compare(b.AInB+b.BInA, a.AInB+a.BInA))
	})
	r.Clusters = clusters(r.Pairs)
	if len(r.Pairs) > MaxPairs {
		r.Notes = append(r.Notes, fmt.Sprintf("only the first %d of %d pairs are shown", MaxPairs, len(r.Pairs)))
		r.Pairs = r.Pairs[:MaxPairs]
	}
	byID := map[string]*program{}
	for i := range d.all {
		byID[d.all[i].id] = &d.all[i]
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		p.Regions = regions(byID[p.A], byID[p.B])
	}
	return r
}

// weight is what a fingerprint counts, and who has it.
type weight struct {
	value uint32 // 0 to fullWeight; whole numbers add up the same in any order
	in    []int32
}

const fullWeight = 256

// weights counts in how many submissions a fingerprint is. What few have counts
// fully, what half of the class has not at all: it is the task's own way.
func (d *Detector) weights() map[uint64]weight {
	all := map[uint64]weight{}
	for i, p := range d.all {
		for h := range p.prints {
			w := all[h]
			w.in = append(w.in, int32(i))
			all[h] = w
		}
	}
	n := float64(len(d.all))
	low, high := max(commonFloor, n/10), max(2*commonFloor, n/2)
	for h, w := range all {
		w.value = uint32(fullWeight * min(1, max(0, (high-float64(len(w.in)))/(high-low))))
		all[h] = w
	}
	return all
}

// shared adds up, for each pair i < j at i*n+j, the weight and the number of
// fingerprints that both have.
func (d *Detector) shared(weights map[uint64]weight) (sum []uint32, count []uint8) {
	n := len(d.all)
	sum, count = make([]uint32, n*n), make([]uint8, n*n)
	for _, w := range weights {
		if w.value == 0 {
			continue
		}
		for k, i := range w.in {
			row := int(i) * n
			for _, j := range w.in[k+1:] {
				sum[row+int(j)] += w.value
				if count[row+int(j)] < minShared {
					count[row+int(j)]++
				}
			}
		}
	}
	return sum, count
}

// clusters joins what pairs hold together.
func clusters(pairs []Pair) []Cluster {
	parent := map[string]string{}
	var find func(string) string
	find = func(s string) string {
		if p, ok := parent[s]; ok && p != s {
			root := find(p)
			parent[s] = root
			return root
		}
		parent[s] = s
		return s
	}
	for _, p := range pairs {
		parent[find(p.A)] = find(p.B)
	}
	byRoot := map[string]*Cluster{}
	for id := range parent {
		root := find(id)
		if byRoot[root] == nil {
			byRoot[root] = &Cluster{}
		}
		byRoot[root].Members = append(byRoot[root].Members, id)
	}
	for _, p := range pairs {
		c := byRoot[find(p.A)]
		c.Pairs++
		c.Highest = max(c.Highest, p.Similarity)
	}
	all := []Cluster{}
	for _, c := range byRoot {
		slices.Sort(c.Members)
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Cluster) int {
		return cmp.Or(cmp.Compare(b.Highest, a.Highest), cmp.Compare(len(b.Members), len(a.Members)), cmp.Compare(a.Members[0], b.Members[0]))
	})
	return all
}
