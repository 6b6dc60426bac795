package similarity

import (
	"cmp"
	"slices"
	"strings"

	"assay/internal/course"
)

// match is a run of equal tokens in two files.
type match struct {
	a, b       *source
	atA, atB   int
	length     int
	fileA, row int // to order equals
}

const (
	// maxPlaces bounds how many places of one fingerprint are looked at on
	// either side.
	maxPlaces = 8
	// maxSteps bounds the tokens compared for one pair: long tables of equal
	// lines fit together in any position.
	maxSteps = 5_000_000
)

// regions finds the runs that two programs share: each shared fingerprint is
// made as long as it goes, and of runs that overlap the longest is taken. Code
// of the starter belongs to no run.
func regions(a, b *program) []Region {
	places := map[uint64][]place{}
	for i := range b.files {
		f := &b.files[i]
		for _, p := range f.prints {
			if len(places[p.hash]) < maxPlaces {
				places[p.hash] = append(places[p.hash], place{f, int(p.at)})
			}
		}
	}
	var found []match
	type diagonal struct {
		a, b *source
		by   int
	}
	covered := map[diagonal]int{} // how far in a a run goes that was found
	seen, steps := map[uint64]int{}, 0
	for i := range a.files {
		f := &a.files[i]
		for _, p := range f.prints {
			if len(places[p.hash]) == 0 || seen[p.hash] == maxPlaces {
				continue
			}
			seen[p.hash]++
			for _, q := range places[p.hash] {
				d := diagonal{f, q.file, int(p.at) - q.at}
				if f.lang != q.file.lang || covered[d] > int(p.at) || steps > maxSteps {
					continue
				}
				m := extend(f, q.file, int(p.at), q.at)
				steps += m.length
				covered[d] = m.atA + m.length
				if m.length >= gram {
					m.fileA, m.row = i, len(found)
					found = append(found, m)
				}
			}
		}
	}
	slices.SortFunc(found, func(x, y match) int { return cmp.Or(cmp.Compare(y.length, x.length), cmp.Compare(x.row, y.row)) })
	usedA, usedB := map[*source][]bool{}, map[*source][]bool{}
	var taken []match
	for _, m := range found {
		if len(taken) == maxRegions {
			break
		}
		if m = m.free(used(usedA, m.a), used(usedB, m.b)); m.length < gram {
			continue
		}
		for i := range m.length {
			usedA[m.a][m.atA+i], usedB[m.b][m.atB+i] = true, true
		}
		taken = append(taken, m)
	}
	slices.SortStableFunc(taken, func(x, y match) int { return cmp.Compare(y.length, x.length) })
	out := make([]Region, len(taken))
	for i, m := range taken {
		out[i] = Region{Tokens: m.length, A: m.a.span(m.atA, m.length), B: m.b.span(m.atB, m.length)}
	}
	return out
}

type place struct {
	file *source
	at   int
}

func used(m map[*source][]bool, f *source) []bool {
	if m[f] == nil {
		m[f] = make([]bool, len(f.tokens))
	}
	return m[f]
}

// extend makes a run as long as tokens are equal and nobody's starter code.
func extend(a, b *source, i, j int) match {
	same := func(i, j int) bool {
		return a.tokens[i].kind == b.tokens[j].kind && !a.given[i] && !b.given[j]
	}
	from := 0
	for from < min(i, j) && same(i-from-1, j-from-1) {
		from++
	}
	to := 0
	for i+to < len(a.tokens) && j+to < len(b.tokens) && same(i+to, j+to) {
		to++
	}
	if to == 0 {
		from = 0
	}
	return match{a: a, b: b, atA: i - from, atB: j - from, length: from + to}
}

// free is the longest part of a run that no run before has taken.
func (m match) free(usedA, usedB []bool) match {
	best, length := 0, 0
	for i, run := 0, 0; i < m.length; i++ {
		if usedA[m.atA+i] || usedB[m.atB+i] {
			run = 0
			continue
		}
		if run++; run > length {
			best, length = i-run+1, run
		}
	}
	m.atA, m.atB, m.length = m.atA+best, m.atB+best, length
	return m
}

func (f *source) span(at, length int) Span {
	from, to := int(f.tokens[at].line), int(f.tokens[at+length-1].line)
	lines := strings.Split(f.text, "\n")
	to = min(to, len(lines))
	text := make([]string, 0, to-from+1)
	for _, l := range lines[from-1 : to] {
		text = append(text, course.Clean(strings.TrimSuffix(l, "\r")))
	}
	return Span{File: f.name, From: from, To: to, Text: text}
}
