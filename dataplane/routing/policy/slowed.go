package policy

// slowed reports whether the rank has lost a part of its speed, by the facts about its GPUs.
func (c *Candidate) slowed() bool { return c.Weight > 0 && c.Weight < 1 }

// share is what the rank has left of its speed.
func (c *Candidate) share() float64 {
	if c.slowed() {
		return c.Weight
	}
	return 1
}

// had is the rate that a slowed rank had, as far as it is known, else that of all.
func (f *fleet) had(c *Candidate) float64 {
	if c.Full > 0 {
		return c.Full
	}
	return f.rate
}

// slowRate is the rate of a slowed rank: its share of what it had, and no more than it measures. The share alone would be late when the
// clocks fall further; the measured rate alone is late by a minute (see speedFall); and their product would count one slowness twice.
func (f *fleet) slowRate(c *Candidate) float64 {
	rate := c.Weight * f.had(c)
	if c.Rate > 0 {
		rate = min(rate, c.Rate)
	}
	return rate
}

// weighted is the rank's requests, one more counted, as many as they are for its speed.
func (c *Candidate) weighted() float64 { return float64(c.InFlight+1) / c.share() }
