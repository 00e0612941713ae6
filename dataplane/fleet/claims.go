package fleet

import (
	"log/slog"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// claims decide which node is believed about a worker that several name. A node may write its own
// record only, but that may name any worker: it could give another node's a role and a bootstrap
// host, take it out by its health, or draw its pull hints, which hold prompts. The first node that
// named a worker keeps it, until it has been away for lostNodeGrace. Where several are there at
// once and none was before, none is believed.
//
// The owner's goroutine has all of it.
type claims struct {
	log    *slog.Logger // nil: none
	owners map[string]*claim
}

type claim struct {
	node     string    // "": none of several is believed
	lost     time.Time // since then it does not name the worker; zero: it does
	contests bool      // another one does too, which was logged
}

func newClaims(log *slog.Logger) *claims { return &claims{log: log, owners: map[string]*claim{}} }

// update takes over a view that has all living nodes.
func (c *claims) update(v *cluster.View, now time.Time) {
	names := map[string][]string{}
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			url := worker.NormalURL(v.Nodes[i].Workers[j].URL)
			if name := v.Nodes[i].Name; !slices.Contains(names[url], name) { // in two spellings
				names[url] = append(names[url], name)
			}
		}
	}
	for url, o := range c.owners {
		nodes := names[url]
		switch {
		case o.node == "" && len(nodes) < 2:
			delete(c.owners, url) // one is left
		case o.node == "" || slices.Contains(nodes, o.node):
			o.lost = time.Time{}
		case o.lost.IsZero():
			o.lost = now
		case now.Sub(o.lost) >= lostNodeGrace:
			delete(c.owners, url)
		}
	}
	for url, nodes := range names {
		o := c.owners[url]
		if o == nil {
			o = &claim{}
			if len(nodes) == 1 {
				o.node = nodes[0]
			}
			c.owners[url] = o
		}
		contests := slices.ContainsFunc(nodes, func(name string) bool { return name != o.node })
		if contests && !o.contests && c.log != nil {
			c.log.Warn("several nodes name one worker: the first is believed, or none where they came together", "worker", url, "nodes", nodes, "believed", o.node)
		}
		o.contests = contests
	}
}

// owner returns the node that is believed about a worker; "" is none.
func (c *claims) owner(url string) string {
	if o := c.owners[worker.NormalURL(url)]; o != nil {
		return o.node
	}
	return ""
}
