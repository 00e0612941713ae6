package worker

import "time"

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
	err = parseLoadReports(body, func(rank int, r Report) { all = append(all, Reported{rank, r}) })
	return all, err
}

// SetSimilarSpeed sets the speed of the ranks that a rank is compared with.
func (l *Load) SetSimilarSpeed(now time.Time, speed float64) { l.setSimilarSpeed(now, speed) }

// OwnSpeed returns the speed that other ranks are compared with.
func (l *Load) OwnSpeed() float64 { return l.ownSpeed() }
