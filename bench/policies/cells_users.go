package policies

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// SceneUsers is the number of users that a scene's workers carry under each policy.
type SceneUsers struct {
	Scene    string    `json:"scene"`
	Pool     int       `json:"pool"` // tokens of a worker
	Capacity *Capacity `json:"capacity"`
}

// HasUsers reports whether the scene is a closed loop.
func (s *Scene) HasUsers() bool {
	u, ok := s.traffic.(*userTraffic)
	return ok && !u.Open
}

// Users searches for the users that a scene's workers carry under each policy.
func (g *Grid) Users(ctx context.Context, s *Scene, o Objective) (*SceneUsers, error) {
	p := &place{Grid: g, Scene: s, cfg: s.Config, ctx: ctx}
	if err := p.fit(); err != nil {
		return nil, fmt.Errorf("cannot size %q: %w", s.Name, err)
	}
	u, ok := s.traffic.(*userTraffic)
	if !ok {
		return nil, fmt.Errorf("cannot search for the users of %q: %w: it has none", s.Name, ErrConfig)
	}
	p.cfg.Seed = g.Seed * 1000
	c, err := findUsers(ctx, u.sessions, u.withDefaults(), p.cfg, g.Policies, o, max(1, g.Runs), nil)
	if err != nil {
		return nil, fmt.Errorf("cannot search for the users of %q: %w", s.Name, err)
	}
	kv, best := c.kvAndBest()
	g.Progress(fmt.Sprintf("%s: kv carries %d users, %s %d", s.Name, kv.Users, best.Policy, best.Users))
	return &SceneUsers{Scene: s.Name, Pool: p.cfg.CacheTokens, Capacity: c}, nil
}

// kvAndBest are kv and the best of the others but the all-knowing one.
func (c *Capacity) kvAndBest() (kv, best PolicyCapacity) {
	for _, p := range c.Policies {
		switch {
		case p.Policy == "kv":
			kv = p
		case p.Policy != Greedy && (best.Policy == "" || p.Users > best.Users):
			best = p
		}
	}
	return kv, best
}

// WriteUsers writes the scenes as a table, those first in which kv carries the smallest share of
// the best's users.
func WriteUsers(w io.Writer, all []*SceneUsers) error {
	share := func(s *SceneUsers) float64 {
		kv, best := s.Capacity.kvAndBest()
		return ratio(float64(kv.Users), float64(best.Users))
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *SceneUsers) int { return cmp.Compare(share(a), share(b)) })
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "scene\tpool\tkv's users\t\tbest's users\t\tof\tkv / best\tlimited by\t")
	for _, s := range all {
		kv, best := s.Capacity.kvAndBest()
		fmt.Fprintf(out, "%s\t%d\t%d\t(%d-%d)\t%d\t(%d-%d)\t%s\t%.2f\t%s\t\n", s.Scene, s.Pool, kv.Users, kv.Sure, kv.Never, best.Users, best.Sure, best.Never, best.Policy, share(s), kv.Limit)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}
