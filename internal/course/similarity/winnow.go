package similarity

// gram tokens make one fingerprint; of each window of so many fingerprints at
// least one is kept. So whatever two programs share over gram+window-1 = 19
// tokens, some three lines, is found for certain, and what is shorter than gram
// never is.
const (
	gram   = 12
	window = 8
)

// print is a fingerprint and where its tokens begin.
type print struct {
	hash uint64
	at   int32
}

// grams gives the hash of each gram tokens in a row, by a rolling hash. It is
// the same for the same tokens in any file of the family.
func grams(tokens []token) []uint64 {
	if len(tokens) < gram {
		return nil
	}
	const base = 0x9E3779B97F4A7C15 | 1
	high := uint64(1) // base^(gram-1)
	for range gram - 1 {
		high *= base
	}
	out := make([]uint64, 0, len(tokens)-gram+1)
	var h uint64
	for i, t := range tokens {
		if i >= gram {
			h -= mix(tokens[i-gram].kind) * high
		}
		h = h*base + mix(t.kind)
		if i >= gram-1 {
			out = append(out, mix(h))
		}
	}
	return out
}

// mix spreads the bits, as the last step of splitmix64: the least of some
// hashes must be a fair choice.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// winnow keeps the least hash of each window and each place once. Of equal ones
// it keeps the one before as long as it can, so that a table of a thousand
// equal lines has few ("robust winnowing").
func winnow(hashes []uint64) []print {
	if len(hashes) == 0 {
		return nil
	}
	var kept []print
	least := -1
	for end := min(window, len(hashes)); end <= len(hashes); end++ {
		begin := max(0, end-window)
		if least < begin {
			least = begin
			for i := begin; i < end; i++ {
				if hashes[i] <= hashes[least] {
					least = i
				}
			}
		} else if hashes[end-1] < hashes[least] {
			least = end - 1
		} else {
			continue
		}
		kept = append(kept, print{hashes[least], int32(least)})
	}
	return kept
}
