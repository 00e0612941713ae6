package cluster

import "time"

// LookEvery returns cfg with streams compared with their watches that often.
func LookEvery(cfg Config, d time.Duration) Config {
	cfg.lookEvery = d
	return cfg
}
