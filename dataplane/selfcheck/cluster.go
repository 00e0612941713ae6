package selfcheck

import (
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// cluster is the part of the cluster that serves a model, by measurement.
type cluster struct {
	ranks   []rank // prefill ranks before decode ranks
	prefill int    // of ranks; 0: each does both
	page    int    // tokens
	routers int    // that choose among the ranks, this one included
}

// rank is one rank; zeros are unknown.
type rank struct {
	rate          float64 // prompt tokens a second
	pool, running int64
	polled        bool
}

// unequal is the ratio of pools, or of batches, from which ranks are not simulated: the simulator
// has one size for all.
const unequal = 1.25

// measure reads the ranks of a model. why says why they cannot be simulated.
func measure(snap *worker.Snapshot, model string, routers int, now time.Time) (c cluster, why string) {
	c.routers = max(routers, 1)
	var roles [3][]rank
	for _, r := range snap.Ranks {
		info := r.Worker.Info()
		if info == nil || !routing.Serves(info, model) || r.Worker.State() != worker.Ready {
			continue
		}
		v := r.Load.View(now)
		role := info.Role()
		roles[role] = append(roles[role], rank{rate: v.Rate, pool: v.Pool, running: v.Most, polled: v.Polled || v.Age < 0})
		if page := info.PageSize; c.page == 0 && role != worker.RoleDecode {
			c.page = page
			if info.Events != nil && info.Events.BlockSize > 0 {
				c.page = info.Events.BlockSize
			}
		}
	}
	alone, prefill, decode := roles[worker.RoleAggregated], roles[worker.RolePrefill], roles[worker.RoleDecode]
	switch {
	case len(alone) > 0 && len(prefill)+len(decode) > 0:
		return c, "the model has both pairs and aggregated workers"
	case len(prefill) > 0 && len(decode) > 0:
		c.ranks, c.prefill = slices.Concat(prefill, decode), len(prefill)
	default:
		c.ranks = alone
	}
	if len(c.ranks) < 2 || c.prefill == 1 {
		return c, "there is one rank to choose"
	}
	pools := func(r rank) float64 { return float64(r.pool) }
	batches := func(r rank) float64 { return float64(r.running) }
	for what, size := range map[string]func(rank) float64{"KV pools": pools, "batches": batches} {
		if least, most := extremes(c.ranks, size); most > unequal*least && least > 0 {
			return c, fmt.Sprintf("the %s of the ranks are of unequal size, %.0f to %.0f", what, least, most)
		}
	}
	return c, ""
}

func extremes(ranks []rank, size func(rank) float64) (least, most float64) {
	for _, r := range ranks {
		if s := size(r); s > 0 && (least == 0 || s < least) {
			least = s
		}
		most = max(most, size(r))
	}
	return least, most
}

// rate is the median speed of the ranks that compute prompts, in tokens a second; 0 is unknown.
func (c *cluster) rate() float64 {
	var all []float64
	for _, r := range c.choosable() {
		if r.rate > 0 {
			all = append(all, r.rate)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// choosable are the ranks that a policy chooses among.
func (c *cluster) choosable() []rank {
	if c.prefill > 0 {
		return c.ranks[:c.prefill]
	}
	return c.ranks
}

// Speeds that the simulator takes, as a multiple of the median.
const slowest, fastest = 0.01, 100

// config returns the simulation of the cluster. rate is the median speed, found otherwise where no
// rank reports one.
func (c *cluster) config(rate float64) policies.Config {
	cfg := policies.Config{
		Workers: len(c.ranks), PageSize: max(c.page, 1), Service: policies.Service{PrefillTokensPerSecond: rate},
		Pools: policies.Pools{Prefill: c.prefill}, Replicas: policies.Replicas{Share: policies.SharePolls},
	}
	for _, r := range c.ranks {
		speed := 1.0
		if r.rate > 0 && rate > 0 {
			speed = min(max(r.rate/rate, slowest), fastest)
		}
		cfg.Speeds = append(cfg.Speeds, speed)
		if r.polled {
			cfg.Poll = time.Second // else the simulator's own: SGLang publishes more often
		}
	}
	least, _ := extremes(c.ranks, func(r rank) float64 { return float64(r.pool) })
	cfg.CacheTokens = int(least)
	_, most := extremes(c.ranks, func(r rank) float64 { return float64(r.running) })
	cfg.Service.MaxRunning = int(most)
	return cfg
}
