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
	if w.Load.PoolTokens > 0 {
		add("KV pool", "%s of %s tokens in use (%s)", short(w.Load.UsedTokens), short(w.Load.PoolTokens), percent(r.pool()))
	} else {
		add("KV pool", "not known")
	}
	if w.Load.PrefillPerSecond > 0 {
		add("Speed", "%s prompt tokens a second; a new request waits %s", short(w.Load.PrefillPerSecond), seconds(w.Load.PredictedWait))
	} else {
		add("Speed", "not known yet")
	}
	add("Traffic", "%d requests (%s of all), %d failed; %s of the prompt tokens were cached", w.Requests, percent(w.Share), w.Failed, percent(r.hits()))
	add("Cache", "%d blocks in the index, overlap by %s; %s", w.Blocks, cmp.Or(w.Overlap, unknown), admin.Plural(w.Sessions, "live session"))
	add("Trust", "%s of its overlap counts; %s of the last %d answers hit as expected", percent(w.Trust.Credit), percent(w.Trust.Accuracy), w.Trust.Compared)
	e := w.Events
	add("Events", "%s, %s late; %d batches, %d gaps, %d lost, %d replayed, %d restarts", e.State, seconds(e.LagMS/1000), e.Batches, e.Gaps, e.Lost, e.Replayed, e.Restarts)
	add("Breaker", "%s; opened %d times", w.Breaker.State, w.Breaker.Opened)
	add("GPUs", "%s", strings.Join(append([]string{w.GPUs.State}, w.GPUs.Reasons...), "; "))
	return lines
}
