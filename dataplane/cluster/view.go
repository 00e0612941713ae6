package cluster

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// view builds a View of the table and the marks.
func (t *memberTable) view(marks map[string]Mark, up bool, at time.Time) *View {
	v := &View{Up: up, At: at}
	for _, m := range t.members {
		switch {
		case !m.shown:
		case m.node != nil:
			v.Nodes = append(v.Nodes, *m.node)
		default:
			v.Routers = append(v.Routers, *m.rec.Router)
		}
	}
	slices.SortFunc(v.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Routers, func(a, b Router) int { return strings.Compare(a.ID, b.ID) })
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		v.Marks = append(v.Marks, marks[target])
	}
	return v
}

// Marked returns the drain and cordon of a worker of a node: its own mark and the node's
// together.
func (v *View) Marked(node, worker string) (drain, cordon bool) {
	for i := range v.Marks {
		if m := &v.Marks[i]; m.Target == node || m.Target == worker {
			drain, cordon = drain || m.Drain, cordon || m.Cordon
		}
	}
	return drain, cordon
}
