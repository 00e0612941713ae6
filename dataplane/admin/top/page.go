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
	for i := range ofWorkers {
		if why, begun, yes := ofWorkers[i].holds(w, m.reading.At); yes {
			c := concern{level: ofWorkers[i].level, text: "It " + ofWorkers[i].one + prefixed(": ", why)}
			if begun >= 0 {
				c.since = "for " + age(begun)
			}
			lines = append(lines, c.draw(width, 4)...)
		}
	}
	r := row{WorkerStatus: w}
	add("State", "%s for %s%s", w.State, age(w.StateSeconds), map[bool]string{true: ", cordoned: once removed, it is not added again"}[w.Cordoned])
	if len(w.Drain) > 0 {
		add("Drained by", "%s", strings.Join(w.Drain, ", "))
	}
	add("Serves", "%s as %s, %s %s, pages of %d tokens", cmp.Or(w.Model, "an unknown model"), cmp.Or(w.Role, "an unknown role"),
		cmp.Or(w.Engine, "SGLang"), cmp.Or(w.Version, "of unknown version"), w.PageSize)
	if w.Node != "" || len(w.Sources) > 0 {
		add("Listed by", "%s%s", cmp.Or(strings.Join(w.Sources, ", "), "no source"), prefixed("; node ", w.Node))
	}
	add("Load", "%d in flight, %d of them without a first token; %s prompt tokens to compute", w.Load.InFlight, w.Load.Waiting, short(float64(w.Load.PendingTokens)))
	if w.Load.PoolTokens > 0 {
		add("KV pool", "%s of %s tokens in use (%s)", short(float64(w.Load.UsedTokens)), short(float64(w.Load.PoolTokens)), percent(r.pool()))
	} else {
		add("KV pool", "not known")
	}
	if w.Load.PrefillPerSecond > 0 {
		add("Speed", "%s prompt tokens a second; a new request waits %s", short(w.Load.PrefillPerSecond), seconds(w.Load.PredictedWait))
	} else {
		add("Speed", "not known yet")
	}
	add("Traffic", "%d requests (%s of all), %d failed; %s of the prompt tokens were cached", w.Requests, percent(w.Share), w.Failed, percent(r.hits()))
	add("Cache", "%d blocks in the index, overlap by %s; %s", w.Blocks, cmp.Or(w.Overlap, unknown), plural(w.Sessions, "live session"))
	add("Trust", "%s of its overlap counts; %s of the last %d answers hit as expected", percent(w.Trust.Credit), percent(w.Trust.Accuracy), w.Trust.Compared)
	e := w.Events
	add("Events", "%s, %s late; %d batches, %d gaps, %d lost, %d replayed, %d restarts", e.State, seconds(e.LagMS/1000), e.Batches, e.Gaps, e.Lost, e.Replayed, e.Restarts)
	add("Breaker", "%s; opened %d times", w.Breaker.State, w.Breaker.Opened)
	add("GPUs", "%s%s", w.GPUs.State, prefixed(": ", strings.Join(w.GPUs.Reasons, "; ")))
	return lines
}
