package turns

// Stats counts the live part of a table.
type Stats struct {
	Sessions int // with a request in flight or since the given time
	Branches int // of these sessions, the main ones included
	Running  int // branches with a request in flight
	Named    int // sessions that their clients name
}

// Stats counts the sessions with requests since a time. It locks a branch at a time.
func (t *Table) Stats(since int64) (s Stats) {
	x := &t.branches
	for at := range x.all {
		mu := &x.locks[at%len(x.locks)]
		mu.Lock()
		b := &x.all[at]
		if b.turns > 0 && (b.running > 0 || b.last >= since) {
			s.Branches++
			if b.running > 0 {
				s.Running++
			}
			if b.main {
				s.Sessions++
				if b.named {
					s.Named++
				}
			}
		}
		mu.Unlock()
	}
	return s
}
