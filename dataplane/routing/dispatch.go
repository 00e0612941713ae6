package routing

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix"
)

// Dispatch notes that a decision is carried out and counts as load. Withdraw or Finish must
// follow. s and p are those of the decision's Pick. The result is nil where no event could tell
// of the prompt.
func (r *Router) Dispatch(s *Scratch, p *Prompt, d *Decision) *Prediction {
	now := time.Now()
	r.Known.begin(&s.turn, p, d, now)
	others := r.Peers != nil && r.Peers.Sending()
	if d.Fetch.Remote > 0 && r.Pulls != nil {
		r.Pulls.Hint(pullHint(p, d))
	}
	r.expectKeyed(p, d)
	if d.block == 0 || d.Rank.Worker.Info().NoCache {
		return nil
	}
	f := r.inFlight.new(r, p, d, now)
	r.inFlight.add(f)
	r.matcher.index.Predict(&f.blocks, radix.Worker(d.Rank.Number()), d.scope, r.matcher.hashAll(s, p, d.block))
	if others {
		f.told = r.share(s, p, d)
	}
	return f
}

// expectKeyed tells the rank's event stream of a prompt with an extra_key, which no event
// names.
func (r *Router) expectKeyed(p *Prompt, d *Decision) {
	block := pageSize(d.Rank.Worker.Info())
	if p.ExtraKey == "" || !p.Exact || p.Opaque || block == 0 {
		return
	}
	hashes := r.matcher.index.AppendHashes(nil, p.Tokens[:len(p.Tokens)/block*block], block)
	blocks := make([]uint64, len(hashes))
	for i, h := range hashes {
		blocks[i] = uint64(h)
	}
	d.Rank.ExtraKeys.End(d.learnt.extra)
	d.learnt.extra = d.Rank.ExtraKeys.Expect(blocks)
}

// Withdraw ends the prediction of a request without an answer: its rank failed, or was told to
// stop. The caller must not use f afterwards; nil is ignored.
func (r *Router) Withdraw(f *Prediction) {
	if f == nil {
		return
	}
	f.endShared()
	r.inFlight.withdraw(f)
}

// Finish ends the prediction of an answered request, with the generated ids where they are
// known. It keeps no reference to them. The caller must not use f afterwards; nil is ignored.
func (r *Router) Finish(s *Scratch, f *Prediction, generated []uint32, now time.Time) {
	if f == nil {
		return
	}
	f.blocks.Confirm()
	f.endShared()
	r.inFlight.finish(s, f, generated, now)
}

// Sent notes that a decision is carried out, so that the approximate index finds the next
// prompt that begins alike. Answered or Failed must follow, with the same Scratch and no other
// Pick in between.
func (r *Router) Sent(s *Scratch, d *Decision) {
	if r.Sessions != nil && d.session.name != 0 {
		r.Sessions.remember(d.session.name, d.Rank.IDHash())
	}
	if r.Approx != nil && len(s.keys) > 0 && learns(d.Rank, d.Source) {
		r.Approx.insert(s, d)
	}
}

// Failed notes that the rank did not begin to answer. After Answered it has no effect.
func (r *Router) Failed(s *Scratch, d *Decision) {
	if d.session.running {
		r.Known.End(d, 0, time.Now())
	}
	d.Rank.ExtraKeys.End(d.learnt.extra)
	if r.Approx != nil {
		r.Approx.withdraw(s, d)
	}
	d.learnt = learnt{}
}

// Answered notes that the rank has prefilled the prompt: of prompt tokens, cached were in its
// prefix cache before; 0 prompt tokens are unreported.
func (r *Router) Answered(s *Scratch, p *Prompt, d *Decision, prompt, cached int) {
	info := d.Rank.Worker.Info()
	if d.Source == Unknown || info.NoCache {
		return
	}
	d.Rank.Events.Answered()
	if d.matched && prompt > 0 {
		claim := worker.EventClaim{
			Told: d.told, Expect: max(d.told, d.Predicted), Cached: min(cached-d.FetchedOf(cached), p.Len()),
			Page: pageSize(info), Ahead: d.ahead, Pool: int64(info.MaxTokens), Storage: info.Storage,
			Removed: int(d.Rank.Events.Removed() - d.removed),
		}
		if claim.FoundMore() {
			claim.Since = r.told(s, p, d.Rank)
		}
		d.Rank.CompareEvents(time.Now(), claim)
	}
	if r.Approx == nil {
		return
	}
	r.Approx.correct(s, p, d, prompt, cached)
	d.learnt = learnt{extra: d.learnt.extra}
}

// told returns the tokens of a prompt that the rank holds by its events now.
func (r *Router) told(s *Scratch, p *Prompt, rank *worker.Rank) int {
	var d Decision
	f := r.takeFacts()
	r.matcher.match(&f.index, s, rank.Worker.Info().Model(), p, &d)
	o := f.index.of(rank).usable(p)
	f.index.clear()
	r.giveBack(f)
	return o.tokens
}

// Streamed notes how long an answer took behind its first token.
func (r *Router) Streamed(took time.Duration) { r.answers.add(took) }
