package routing

// Considered is among how many ranks the last choice was made.
func (s *Scratch) Considered() int { return len(s.ranks) }
