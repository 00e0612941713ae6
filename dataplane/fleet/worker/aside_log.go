package worker

import (
	"log/slog"
	"slices"
)

// asideLog logs the fields of load reports, and the events, that are set aside.
type asideLog struct {
	logged []asideField
	events []*Rank
}

// asideField is a field of a rank's reports that the log calls set aside.
type asideField struct {
	rank  *Rank
	field string
}

// update logs each field once when it is set aside, and once when it counts again.
func (a *asideLog) update(ranks []*Rank, log *slog.Logger) {
	a.updateEvents(ranks, log)
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

// updateEvents logs once that a rank's events are set aside, and once that they count again.
func (a *asideLog) updateEvents(ranks []*Rank, log *slog.Logger) {
	a.events = slices.DeleteFunc(a.events, func(rank *Rank) bool {
		if rank.Events.Fault() != NoEventFault {
			return false
		}
		log.Info("a rank's KV events are believed again", "rank", rank.ID())
		return true
	})
	for _, rank := range ranks {
		if fault := rank.Events.Fault(); fault != NoEventFault && !slices.Contains(a.events, rank) {
			a.events = append(a.events, rank)
			log.Warn("a rank's KV events are set aside; it is known by the requests sent to it and by their answers until they are right",
				"rank", rank.ID(), "why", fault.Why())
		}
	}
}
