package session

import "math"

const (
	// A bin is half an octave of pauses, from 2^-16 to 2^15 seconds: 15 us to 9 hours.
	binsPerOctave = 2
	firstOctave   = -16
	bins          = (15 - firstOctave) * binsPerOctave
	// classes are sessions of 1, 2 to 3, 4 to 7 turns and so on; the last one goes on.
	classes = 5
	// agedAfter pauses halve all counts: old pauses say little about present sessions.
	agedAfter = 4096
	// staleAfter pauses make the chances anew: one changes them by less than a thousandth.
	staleAfter = 32
)

// gaps is the distribution of pauses between an answer and the next turn of its session.
type gaps struct {
	seen [bins]float64 // pauses that lasted until the bin, and beyond it or ended in it
	back [bins]float64 // of them, ended in it
	// chance is the probability that a pause that has lasted until the bin will ever end, as it
	// was changes pauses ago.
	chance  [bins]float64
	changes int
}

// bin returns the bin of a pause.
func bin(pause float64) int {
	if pause <= 0 {
		return 0
	}
	fraction, exponent := math.Frexp(pause) // [0.5, 1) × 2^exponent
	b := (exponent - 1 - firstOctave) * binsPerOctave
	if fraction >= math.Sqrt2/2 {
		b++
	}
	return min(max(b, 0), bins-1)
}

// outlasted counts a pause that has gone on from bin from until bin to.
func (g *gaps) outlasted(from, to int) {
	for b := from; b < to; b++ {
		g.seen[b]++
	}
	g.changes++
}

// ended counts a pause, known to bin from, that ended in bin at.
func (g *gaps) ended(from, at int) {
	g.outlasted(from, at)
	g.seen[at]++
	g.back[at]++
	if g.seen[0] > agedAfter {
		for b := range g.seen {
			g.seen[b] /= 2
			g.back[b] /= 2
		}
	}
}

// returns is the probability that a pause that has lasted until the bin will end.
func (g *gaps) returns(at int) float64 {
	if g.changes > staleAfter || (g.changes > 0 && g.seen[0] < staleAfter) {
		g.changes = 0
		stay := 1.0
		for b := bins - 1; b >= 0; b-- {
			if g.seen[b] > 0 {
				stay *= 1 - g.back[b]/g.seen[b]
			}
			g.chance[b] = 1 - stay
		}
	}
	return g.chance[at]
}
