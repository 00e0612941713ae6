package cluster

import "time"

// LookEvery returns cfg with streams compared with their watches that often.
func LookEvery(cfg Config, d time.Duration) Config {
	cfg.lookEvery = d
	return cfg
}

// MaxHeld returns cfg with so many bytes in the buckets for each holder of a token.
func MaxHeld(cfg Config, n int) Config {
	cfg.maxHeld = n
	return cfg
}

// Hear has a cluster believe that it hears NATS.
func (c *Cluster) Hear() { c.hearing.Store(true) }
