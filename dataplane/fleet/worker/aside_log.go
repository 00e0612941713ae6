package worker

import (
	"log/slog"
	"slices"
)

// asideLog logs the fields of load reports that are set aside.
type asideLog struct{ logged []asideField }

// asideField is a field of a rank's reports that the log calls set aside.
type asideField struct {
	rank  *Rank
	field string
}

// update logs each field once when it is set aside, and once when it counts again.
func (a *asideLog) update(ranks []*Rank, log *slog.Logger) {
	still := a.logged[:0]
	for _, l := range a.logged {
		if slices.ContainsFunc(l.rank.Load.SetAside(), func(s Aside) bool { return s.Field == l.field }) {
			still = append(still, l)
			continue
		}
		log.Info("a rank's load report is believed again", "rank", l.rank.ID(), "field", l.field)
	}
	a.logged = still
	for _, rank := range ranks {
		for _, s := range rank.Load.SetAside() {
			if slices.Contains(a.logged, asideField{rank, s.Field}) {
				continue
			}
			a.logged = append(a.logged, asideField{rank, s.Field})
			log.Warn("a rank's load report contradicts the router's account; the field is set aside", "rank", rank.ID(),
				"field", s.Field, "why", s.Why, "reported", s.Reported, "instead", s.Instead)
		}
	}
}
