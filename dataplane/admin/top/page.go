package top

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// page draws all that the router says of one worker.
func (m *model) page(w *admin.WorkerStatus, width int) (lines []string) {
	add := func(label, format string, args ...any) {
		text := clean(fmt.Sprintf(format, args...))
		for i, part := range wrap(text, width-12, 4) {
			if i > 0 {
				label = ""
			}
			lines = append(lines, cut(faint.paint(left(label, 12))+part, width))
		}
	}
	for i := range w.Concerns {
		lines = append(lines, draw(&w.Concerns[i], width, 6)...)
	}
	r := row{w}
	add("State", "%s for %s%s", w.State, age(w.StateSeconds), map[bool]string{true: ", cordoned: once removed, it is not added again"}[w.Cordoned])
	if len(w.Drain) > 0 {
		add("Drained by", "%s", strings.Join(w.Drain, ", "))
	}
	add("Serves", "%s as %s, %s %s, pages of %d tokens", cmp.Or(w.Model, "an unknown model"), cmp.Or(w.Role, "an unknown role"),
		cmp.Or(w.Engine, "SGLang"), cmp.Or(w.Version, "of unknown version"), w.PageSize)
	if w.Node != "" || len(w.Sources) > 0 {
		add("Listed by", "%s; node %s", cmp.Or(strings.Join(w.Sources, ", "), "no source"), cmp.Or(w.Node, unknown))
	}
	add("Load", "%d in flight, %d of them without a first token; %s prompt tokens to compute", w.Load.InFlight, w.Load.Waiting, short(w.Load.PendingTokens))
	dead := w.State == "dead"
	switch {
	case dead:
		add("KV pool", "a dead worker holds nothing")
	case w.Load.PoolTokens > 0:
		add("KV pool", "%s of %s tokens in use (%s)", short(w.Load.UsedTokens), short(w.Load.PoolTokens), percent(r.pool()))
	default:
		add("KV pool", "not known")
	}
	switch speed := short(w.Load.PrefillPerSecond) + " prompt tokens a second"; {
	case w.Load.PrefillPerSecond <= 0:
		add("Speed", "not known yet")
	case dead:
		add("Speed", "%s while it lived", speed)
	default:
		add("Speed", "%s; a new request waits %s", speed, seconds(w.Load.PredictedWait))
	}
	cached := "no prompt tokens yet"
	if w.PromptTokens > 0 {
		cached = percent(r.hits()) + " of the prompt tokens were cached"
	}
	add("Traffic", "%s (%s of all), %d failed; %s", admin.Plural(w.Requests, "request"), percent(w.Share), w.Failed, cached)
	add("Cache", "%s in the index, overlap %s; %s", admin.Plural(w.Blocks, "block"), cmp.Or(w.Overlap, "unknown"), admin.Plural(w.Sessions, "live session"))
	compared := "no answer compared yet"
	if n := w.Trust.Compared; n > 0 {
		compared = fmt.Sprintf("%s of %s hit as expected", percent(w.Trust.Accuracy), admin.Plural(n, "compared answer"))
	}
	add("Trust", "%s of its overlap counts; %s", percent(w.Trust.Credit), compared)
	e := w.Events
	add("Events", "%s, %s late; batches %d, gaps %d, lost %d, replayed %d, restarts %d", e.State, seconds(e.LagMS/1000), e.Batches, e.Gaps, e.Lost, e.Replayed, e.Restarts)
	add("Breaker", "%s; opened %s", w.Breaker.State, admin.Plural(w.Breaker.Opened, "time"))
	add("GPUs", "%s", strings.Join(append([]string{w.GPUs.State}, w.GPUs.Reasons...), "; "))
	return lines
}
