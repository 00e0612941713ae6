package policy

// Dynamo is the cost of NVIDIA Dynamo's router (lib/kv-router, selector.rs: the default worker
// selector), in KV blocks:
//
//	max(0, prompts being prefilled + this prompt - credit) + blocks of running requests
//	credit = overlap weight x on the GPU + 0.75 x in host memory + 0.25 x on disk
//
// The lowest wins, ties at random; with a temperature, a draw from the softmax. Its options are
// named as there: --kv-overlap-score-weight and --router-temperature.
type Dynamo struct {
	Options
}

var _ Policy = Dynamo{}

const (
	dynamoBlock = 16 // tokens: its default block size
	dynamoHost  = 0.75
	dynamoDisk  = 0.25
)

// Name implements Policy.
func (Dynamo) Name() string { return "dynamo" }

// Pick implements Policy.
func (p Dynamo) Pick(req Request, candidates []Candidate) Choice {
	var room [stackScores]float64
	scores := p.scores(grow(room[:0], len(candidates)), &req, candidates)
	if p.Temperature > 0 {
		return sample(scores, req.Seed, p.Temperature)
	}
	return lowest(scores, req.Seed, "lowest sum of prefill and decode blocks")
}

func (p Dynamo) scores(dst []float64, req *Request, candidates []Candidate) []float64 {
	for i := range candidates {
		c := &candidates[i]
		device := float64(max(c.Cached-c.Host, c.Predicted))
		credit := p.OverlapWeight*device + dynamoHost*float64(c.Host-c.Disk) + dynamoDisk*float64(c.Disk)
		prefill := max(float64(c.Pending)+float64(req.Tokens)-credit, 0)
		dst = append(dst, (prefill+float64(c.Used)+float64(req.Tokens))/dynamoBlock)
	}
	return dst
}
