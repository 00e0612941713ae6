package policies

// adaptivePrefix is DualMap's adaptive prefix: it names a prompt by as much of its beginning as
// no more than one rank's share of all late requests have in common. Counting is as good as
// knowing the whole trace in 49 workloads, except for tool loops behind long instructions (mean
// TTFT twice as long): lengths double, and theirs end between two. The zero value is ready.
type adaptivePrefix struct {
	seen   uint32
	counts [prefixCounts]uint32 // of beginnings, by hash; two that share a count look more popular
}

const (
	// prefixCounts is four for each request of the window: most need one or two beginnings.
	prefixCounts = 1 << 14
	// prefixWindow requests later all counts are halved: a few minutes of a fleet.
	prefixWindow = 1 << 12
	// prefixFloor requests of one beginning are never too many: shares of little say nothing.
	prefixFloor = 16
)

// hash counts a prompt and returns the hash of its shortest beginning that few enough prompts
// share, or else of the longest one. beginnings are hashes of growing beginnings of the prompt.
func (a *adaptivePrefix) hash(ranks int, beginnings []uint64) uint64 {
	a.seen++
	seen := a.seen
	if seen >= prefixWindow {
		a.seen /= 2
		for i := range a.counts {
			a.counts[i] /= 2
		}
	}
	for _, h := range beginnings {
		a.counts[h%prefixCounts]++
		if uint64(a.counts[h%prefixCounts])*uint64(ranks) <= uint64(max(seen, uint32(prefixFloor*ranks))) {
			return h
		}
	}
	return beginnings[len(beginnings)-1]
}
