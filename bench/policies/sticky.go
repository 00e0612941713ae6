package policies

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// stickySessions sends a new session to the rank with the fewest live sessions, and its later
// requests to the same rank, by the number of the session alone. Replicas share one table.
type stickySessions struct {
	at   map[uint64]*stay
	live []*stay
}

// stay is a session at a rank.
type stay struct {
	session, rank uint64
	used          clock
	counted       bool // is in live
}

// liveFor is how long a session counts after its last request: as long as the pauses of sessions
// that users play.
const liveFor = 300 * second

// Name implements policy.Policy.
func (*stickySessions) Name() string { return "sticky-sessions" }

// Needs implements policy.Policy.
func (*stickySessions) Needs() policy.Needs { return 0 }

// Pick implements policy.Policy: the least loaded candidate, without a session.
func (*stickySessions) Pick(_ policy.Request, candidates []policy.Candidate) policy.Choice {
	least := 0
	for i := range candidates {
		if candidates[i].InFlight < candidates[least].InFlight {
			least = i
		}
	}
	return policy.Choice{Index: least, Reason: "least load, without a session"}
}

// pickForSession picks a candidate for a request of a session, not 0, that comes at now.
func (p *stickySessions) pickForSession(session uint64, now clock, candidates []policy.Candidate) policy.Choice {
	s := p.at[session]
	if s != nil {
		p.count(s)
		for i := range candidates {
			if candidates[i].ID == s.rank {
				s.used = now
				return policy.Choice{Index: i, Reason: "its session"}
			}
		}
	}
	if s == nil {
		s = &stay{session: session}
		if p.at == nil {
			p.at = make(map[uint64]*stay)
		}
		p.at[session] = s
		p.count(s)
	}
	s.used, s.rank = now, 0
	best := p.fewest(now, candidates)
	s.rank = candidates[best].ID
	return policy.Choice{Index: best, Reason: "fewest sessions"}
}

// count makes s one of the live sessions.
func (p *stickySessions) count(s *stay) {
	if !s.counted {
		s.counted = true
		p.live = append(p.live, s)
	}
}

// fewest is the candidate with the fewest live sessions, of equal ones the least loaded. Sessions
// that are over leave the count, not the table.
func (p *stickySessions) fewest(now clock, candidates []policy.Candidate) (best int) {
	counts := make(map[uint64]int64, len(candidates))
	keep := p.live[:0]
	for _, s := range p.live {
		if now-s.used <= liveFor {
			counts[s.rank]++
			keep = append(keep, s)
			continue
		}
		s.counted = false
	}
	clear(p.live[len(keep):])
	p.live = keep
	for i := range candidates {
		a, b := &candidates[i], &candidates[best]
		if counts[a.ID] < counts[b.ID] || (counts[a.ID] == counts[b.ID] && a.InFlight < b.InFlight) {
			best = i
		}
	}
	return best
}
