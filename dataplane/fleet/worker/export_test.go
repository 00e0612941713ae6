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
	err = parseLoadReports(body, func(rank int, r Report) { all = append(all, Reported{rank, r}) })
	return all, err
}

// Account is a load report beside the requests that a router knows at the rank.
type Account struct{ Running, Waiting, Queued, Used, Pool, Flight, Pending, Held int64 }

// FindUsed compares the used tokens of a report with the requests.
func FindUsed(a Account) Finding {
	return findUsed(&Report{Running: a.Running, Waiting: a.Waiting, Queued: a.Queued, Used: a.Used, Pool: a.Pool},
		peaks{flight: a.Flight, pending: a.Pending, held: a.Held})
}

// FindPool compares a reported pool with its content.
var FindPool = findPool
