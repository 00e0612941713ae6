package worker

// The readers of a worker's description, which are reached by the network only, and the end of a
// hang.
var (
	ParseInfo = parseInfo
	Classify  = classify
)

// ParseModels reads the body of /v1/models.
func ParseModels(body []byte) (bases, adapters []string, maxLen int, err error) {
	s, err := parseModels(body)
	return s.bases, s.adapters, s.maxLen, err
}

// GiveUp does the work of a monitor when its worker hangs.
func (w *Worker) GiveUp() { w.waiting.giveUp(false) }

// Reported is one rank of /v1/loads.
type Reported struct {
	Rank int
	Report
}

// ParseLoads reads the body of /v1/loads.
func ParseLoads(body []byte) (all []Reported, err error) {
	list, err := parseLoadReports(body)
	for _, r := range list {
		all = append(all, Reported{r.rank, r.report})
	}
	return all, err
}
