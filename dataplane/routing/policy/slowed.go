package policy

// slowed reports whether the rank has lost a part of its speed, by the facts about its GPUs.
func (c *Candidate) slowed() bool { return c.Weight > 0 && c.Weight < 1 }

// share is the rank's remaining share of its speed.
func (c *Candidate) share() float64 {
	if c.slowed() {
		return c.Weight
	}
	return 1
}

// fullRate is a slowed rank's rate before, as far as it is known, else the mean of all.
func (f *fleet) fullRate(c *Candidate) float64 {
	if c.Full > 0 {
		return c.Full
	}
	return f.rate
}

// slowRate is the rate of a slowed rank: its share of the full rate, and no more than it
// measures. The share alone would be late when the clocks fall further; the measured rate alone
// is late by a minute (see speedFall); their product would count one slowness twice.
func (f *fleet) slowRate(c *Candidate) float64 {
	rate := c.Weight * f.fullRate(c)
	if c.Rate > 0 {
		rate = min(rate, c.Rate)
	}
	return rate
}

// weighted is the rank's requests, one more counted, divided by its share of speed.
func (c *Candidate) weighted() float64 { return float64(c.InFlight+1) / c.share() }
