package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// row is a worker's rank in the table.
type row struct{ *admin.WorkerStatus }

// worst is the severity of its worst concern; "" where it has none.
func (r *row) worst() admin.Severity {
	if len(r.Concerns) == 0 {
		return ""
	}
	return r.Concerns[0].Severity
}

// name is a rank's ID without the scheme that nearly all have.
func (r *row) name() string { return clean(strings.TrimPrefix(r.ID, "http://")) }

// state is its state in a word, or why a ready one is in doubt. A cordoned worker serves on.
func (r *row) state() string {
	switch {
	case r.State != "ready":
		return clean(r.State)
	case r.GPUs.State == "dead":
		return "gpu dead"
	case r.Breaker.State != "closed":
		return "failing"
	case r.Cordoned:
		return "cordoned"
	}
	return "ready"
}

// pool is the used share of its KV pool. A dead worker holds nothing, whatever it reported last.
func (r *row) pool() float64 {
	if r.Load.PoolTokens <= 0 || r.State == "dead" {
		return math.NaN()
	}
	return float64(r.Load.UsedTokens) / float64(r.Load.PoolTokens)
}

func (r *row) hits() float64 {
	if r.PromptTokens == 0 {
		return math.NaN()
	}
	return r.HitRate
}

func (r *row) events() string {
	if slices.ContainsFunc(r.Concerns, func(c admin.Concern) bool { return c.Kind == "worker_events_late" }) {
		return "late " + brief(r.Events.LagMS/1000)
	}
	return clean(r.Events.State)
}

func (r *row) style() style {
	switch {
	case r.worst() == admin.Fault, r.worst() == admin.Warning:
		return looks[r.worst()].look
	case r.State == "draining" || r.Cordoned:
		return faint
	}
	return plain
}

// rows returns the workers that the filter keeps, in order.
func (m *model) rows() []row {
	all := make([]row, 0, len(m.reading.Status.Workers))
	words := strings.Fields(strings.ToLower(m.filter))
	for i := range m.reading.Status.Workers {
		w := &m.reading.Status.Workers[i]
		if len(words) > 0 && !holds(w, words) {
			continue
		}
		all = append(all, row{w})
	}
	order := orders[m.order].less
	slices.SortStableFunc(all, func(a, b row) int {
		by := order(&a, &b)
		if m.reversed {
			by = -by
		}
		return cmp.Or(by, compareNames(a.ID, b.ID))
	})
	return all
}

// compareNames orders numbers in names by value: gpu-9 is before gpu-10.
func compareNames(a, b string) int {
	for len(a) > 0 && len(b) > 0 {
		x, y := digits(a), digits(b)
		if x == "" || y == "" {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		m, n := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
		if by := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); by != 0 {
			return by
		}
		a, b = a[len(x):], b[len(y):]
	}
	return cmp.Compare(len(a), len(b))
}

// digits are those that a text begins with.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

// holds reports whether a worker has all words of a filter.
func holds(w *admin.WorkerStatus, words []string) bool {
	text := strings.ToLower(strings.Join([]string{w.ID, w.State, w.Role, w.Model, w.Node, w.Events.State, map[bool]string{true: "cordoned"}[w.Cordoned]}, " "))
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// orders are the ways to sort; keys that are numbers have the largest first.
var orders = []struct {
	name string
	less func(a, b *row) int
}{
	{"state", func(a, b *row) int {
		return cmp.Or(a.worst().Compare(b.worst()), cmp.Compare(stateRank(a), stateRank(b)))
	}},
	{"requests in flight", func(a, b *row) int { return cmp.Compare(b.Load.InFlight, a.Load.InFlight) }},
	{"requests a second", func(a, b *row) int { return cmp.Compare(b.RequestRate, a.RequestRate) }},
	{"hit rate", func(a, b *row) int { return cmp.Compare(b.hits(), a.hits()) }},
	{"KV pool", func(a, b *row) int { return cmp.Compare(b.pool(), a.pool()) }},
	{"failed", func(a, b *row) int { return cmp.Compare(b.Failed, a.Failed) }},
	{"name", func(*row, *row) int { return 0 }},
}

func stateRank(r *row) int {
	return slices.Index([]string{"dead", "gpu dead", "failing", "slow", "probing", "draining", "cordoned", "ready"}, r.state())
}

// column is a column of the table.
type column struct {
	title string
	width int
	text  func(r *row) string
	wide  bool // shown where there is room
	words bool // aligned to the left
}

var columns = []column{
	{title: "STATE", width: 8, words: true, text: (*row).state},
	{title: "SINCE", width: 5, text: func(r *row) string { return brief(r.StateSeconds) }},
	{title: "FLIGHT", width: 6, text: func(r *row) string { return short(r.Load.InFlight) }},
	{title: "WAIT", width: 5, text: func(r *row) string { return short(r.Load.Waiting) }},
	{title: "REQ/S", width: 5, text: func(r *row) string { return short(r.RequestRate) }},
	{title: "HIT", width: 4, text: func(r *row) string { return percent(r.hits()) }},
	{title: "POOL", width: 4, text: func(r *row) string { return percent(r.pool()) }},
	{title: "EVENTS", width: 10, words: true, text: (*row).events},
	{title: "FAILED", width: 6, wide: true, text: func(r *row) string { return short(r.Failed) }},
	{title: "ROLE", width: 10, wide: true, words: true, text: func(r *row) string { return cmp.Or(clean(r.Role), unknown) }},
	{title: "NODE", width: 10, wide: true, words: true, text: func(r *row) string { return cmp.Or(clean(r.Node), unknown) }},
	{title: "TRUST", width: 5, wide: true, text: func(r *row) string { return percent(r.Trust.Credit) }},
	{title: "TOK/S", width: 6, wide: true, text: func(r *row) string {
		if r.Load.PrefillPerSecond <= 0 {
			return unknown
		}
		return short(r.Load.PrefillPerSecond)
	}},
	{title: "GPUS", width: 9, wide: true, words: true, text: func(r *row) string { return clean(r.GPUs.State) }},
	{title: "MODEL", width: 20, wide: true, words: true, text: func(r *row) string { return cmp.Or(clean(r.Model), unknown) }},
}

// layout returns the columns that fit, the width of the names before them, and the gap between
// columns: one where the names need it. Names come before columns: they tell rows apart.
func layout(rows []row, width int) (fit []column, names, gap int) {
	names, gap = len("WORKER"), 2
	for i := range rows {
		names = max(names, ansi.StringWidth(rows[i].name()))
	}
	if width <= 0 {
		return columns, names, gap
	}
	const mark = 2
	rest := width - mark
	for _, c := range columns {
		left := rest - c.width - gap
		if c.wide && left < min(names, 44) || !c.wide && len(fit) > 0 && left+len(fit)+1 < min(names, 18) {
			continue
		}
		fit, rest = append(fit, c), left
	}
	if rest < names {
		gap = 1
		rest += len(fit)
	}
	return fit, max(min(names, rest), 4), gap
}

// table draws the head and the rows from first on; chosen is the row with the cursor, -1: none.
func table(rows []row, first, height, chosen, width int) []string {
	fit, names, gap := layout(rows, width)
	between := strings.Repeat(" ", gap)
	heads := []string{left("WORKER", names)}
	for i := range fit {
		heads = append(heads, fit[i].pad(fit[i].title))
	}
	lines := []string{strong.paint(cut(strings.TrimRight("  "+strings.Join(heads, between), " "), width))}
	for i := first; i < len(rows) && len(lines) <= height; i++ {
		r := &rows[i]
		cells := make([]string, 0, 1+len(fit))
		cells = append(cells, tail(r.name(), names))
		for c := range fit {
			cells = append(cells, fit[c].pad(fit[c].text(r)))
		}
		cursor := "  "
		if i == chosen {
			cursor = "> "
		}
		line, look := cut(strings.TrimRight(cursor+strings.Join(cells, between), " "), width), r.style()
		if i == chosen {
			look, line = inverse, left(line, width)
		}
		lines = append(lines, look.paint(line))
	}
	return lines
}

func (c *column) pad(text string) string {
	if c.words {
		return left(text, c.width)
	}
	return right(text, c.width)
}

// caption names the order and the filter of the table, and the time that the charts above it show.
func (m *model) caption(shown int) string {
	text := "Workers, by " + orders[m.order].name
	if m.reversed {
		text += ", reversed"
	}
	if m.filter != "" {
		text += fmt.Sprintf("; %d of %d with %q", shown, len(m.reading.Status.Workers), clean(m.filter))
	}
	if m.day {
		return text + "; charts of a day"
	}
	return text + "; charts of 15 minutes"
}
