package request

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// choice picks the rank, or the pair, for each attempt of a request.
type choice struct {
	x *exchange

	prompt   routing.Prompt
	scratch  routing.Scratch
	decision routing.Decision // of the attempt
	retries  int              // attempts left after this one
	ticket   queue.Permit     // of a request that had to wait
	excluded []*worker.Rank
	suspects []*worker.Rank // part of excluded: either rank of a failed pair may be at fault
}

var (
	// errManyAnswers refuses several answers to one prompt. SGLang 0.5.23 gives all of them the one
	// bootstrap room of their prompt, so that their KV pages would be mixed up.
	errManyAnswers = openai.BadRequest("n",
		"Pairs of prefill and decode workers give one answer to a prompt: send n requests.")
	// errUnpaired refuses a route that neither worker of a pair can serve. Without a bootstrap room
	// they answer 400, and an engine with several prefill ranks dies (SGLang 0.5.23, --dp-size 2).
	errUnpaired = openai.BadRequest("",
		"Pairs of prefill and decode workers do not serve this route: it needs a regular "+
			"worker.")
)

// errOldMessages refuses /v1/messages where a worker of the pair drops the bootstrap room of such
// requests (sgl-project/sglang#35229), and neither half can serve them.
var errOldMessages = openai.BadRequest("",
	"Pairs of prefill and decode workers serve this route from SGLang 0.5.23 on: it needs an "+
		"regular worker here.")

// takesRooms reports whether a worker reads the bootstrap room in a body of /v1/messages.
func takesRooms(rank *worker.Rank) bool {
	info := rank.Worker.Info()
	if info == nil {
		return false
	}
	var major, minor, patch int
	_, err := fmt.Sscanf(info.Version, "%d.%d.%d", &major, &minor, &patch)
	return err == nil && slices.Compare([]int{major, minor, patch}, []int{0, 5, 23}) >= 0
}

// pairRule says how the pair that was picked may serve the request. either: any worker of the pair
// answers alone. refusal: only a regular worker answers, and this is the error where there is
// none.
func (x *exchange) pairRule(prefill, decode *worker.Rank) (either bool, refusal error) {
	path := string(x.call.path())
	switch {
	case !x.inference && (isTokenizer(path) || x.prompt.holder != nil || string(x.call.method()) != fasthttp.MethodPost):
		return true, nil
	case !x.inference, x.api == openai.APIOllama: // bodies that cannot name a bootstrap room
		return false, errUnpaired
	case x.api == openai.APIMessages && !x.h.live().Pair.Headers && (!takesRooms(prefill) || !takesRooms(decode)):
		return false, errOldMessages
	case x.req.N > 1:
		return false, errManyAnswers
	}
	return false, nil
}

// isTokenizer reports whether a route is computed outside the model.
func isTokenizer(path string) bool {
	switch path {
	case "/v1/tokenize", "/tokenize", "/v1/detokenize", "/detokenize", pathCountTokens, pathOllamaShow, "/parse_function_call", "/separate_reasoning":
		return true
	}
	return false
}

// choose picks the rank or the pair for the next attempt.
func (c *choice) choose() (routing.Decision, error) {
	c.prompt.Name = c.x.call.name()
	d, err := c.pick()
	for errors.Is(err, routing.ErrNoWorker) && c.retrySuspect() {
		d, err = c.pick()
	}
	if err != nil || d.Decode == nil {
		return d, err
	}
	// Not d: it would be allocated for every request.
	either, refusal := c.x.pairRule(d.Rank, d.Decode)
	switch {
	case either:
		d.GiveBack(d.Decode)
		d.Decode = nil
	case refusal != nil:
		d.GiveBack(d.Rank)
		d.GiveBack(d.Decode)
		c.prompt.Unpaired = true
		d, err = c.pick()
		if errors.Is(err, routing.ErrNoWorker) {
			err = refusal
		}
	}
	return d, err
}

// pick chooses among all eligible ranks; a request that had to wait, among those with room.
func (c *choice) pick() (routing.Decision, error) {
	own := c.ticket.Rank()
	if own == nil || len(c.excluded) > 0 {
		return c.x.h.Router.Pick(&c.scratch, &c.prompt, c.excluded)
	}
	now := time.Now()
	for _, rank := range c.x.h.Registry.Snapshot().Ranks {
		if any(rank) != own && c.x.h.admission.capacity(rank, now) <= 0 {
			c.exclude(rank)
		}
	}
	if d, err := routing.Preview(c.x.h.Router, &c.scratch, &c.prompt, c.excluded); err == nil && max(d.Cached, d.Predicted) < d.Uncached() {
		c.excludeBusy(own, now)
	}
	d, err := c.x.h.Router.Pick(&c.scratch, &c.prompt, c.excluded)
	clear(c.excluded)
	if c.excluded = c.excluded[:0]; err != nil {
		return c.x.h.Router.Pick(&c.scratch, &c.prompt, nil)
	}
	return d, nil
}

// excludeBusy makes the ranks ineligible that compute a batch: only for most of its prompt in the
// cache is a request worth the wait there.
func (c *choice) excludeBusy(own any, now time.Time) {
	for _, rank := range c.x.h.Registry.Snapshot().Ranks {
		if load := rank.Load.View(now); any(rank) != own && c.x.h.admission.room(rank, &load) <= 0 {
			c.exclude(rank)
		}
	}
}

// exclude makes a rank ineligible for the attempts to come.
func (c *choice) exclude(rank *worker.Rank) { c.excluded = append(c.excluded, rank) }

// suspect marks excluded ranks of which any may be at fault. They become eligible again, the first
// one first, when no other rank is left.
func (c *choice) suspect(ranks ...*worker.Rank) { c.suspects = append(c.suspects[:0], ranks...) }

// retrySuspect makes one suspected rank eligible again, starting with the one that reported the
// failure: it was alive enough to report it.
func (c *choice) retrySuspect() bool {
	if len(c.suspects) == 0 {
		return false
	}
	rank := c.suspects[0]
	c.suspects = c.suspects[1:]
	c.excluded = slices.DeleteFunc(c.excluded, func(r *worker.Rank) bool { return r == rank })
	return true
}

// includeAll makes all ranks eligible again.
func (c *choice) includeAll() {
	clear(c.excluded)
	c.excluded, c.suspects = c.excluded[:0], nil
}

// elsewhere reports whether an eligible rank beside this one could take the request. Monitors of
// workers call it while the request waits for an answer: nothing that it reads changes meanwhile.
func (c *choice) elsewhere(rank *worker.Rank) bool {
	if c.retries <= 0 {
		return false
	}
	return c.x.h.Router.HasUntried(&c.prompt, append(slices.Clone(c.excluded), rank))
}

// answering returns the rank that answers the client.
func (c *choice) answering() *worker.Rank {
	if c.decision.Decode != nil {
		return c.decision.Decode
	}
	return c.decision.Rank
}

func (c *choice) reset() {
	c.scratch.Trim()
	clear(c.excluded)
	c.prompt, c.decision = routing.Prompt{}, routing.Decision{}
	c.excluded, c.suspects = c.excluded[:0], nil
}

// headerRank names a data-parallel rank to SGLang's OpenAI routes, where it wins over the body.
const headerRank = "X-Data-Parallel-Rank"

// readRank has the header for a data-parallel rank count as the body does, at every route. A rank
// that no worker has is refused, and so are two: SGLang would take the header, and versions differ
// about the body.
func (x *exchange) readRank() error {
	req, param := &x.req, "routed_dp_rank"
	x.rankInBody = req.HasRank
	header := &x.call.ctx.Request.Header
	if !req.HasRank && countField(header, headerRank) == 0 { // as nearly always
		return nil
	}
	for _, value := range header.PeekAll(headerRank) {
		rank, err := strconv.Atoi(string(value))
		if err != nil {
			return openai.NoSuchRank(headerRank, string(value), x.choice.ranksOf(req.Model, x.prompt.holder))
		}
		if req.HasRank && rank != req.Rank {
			return errRanks(param, req.Rank, rank)
		}
		req.Rank, req.HasRank, param = rank, true, headerRank
	}
	if !req.HasRank {
		return nil
	}
	ranks := x.choice.ranksOf(req.Model, x.prompt.holder)
	if req.Rank < 0 || ranks > 0 && req.Rank >= ranks {
		return openai.NoSuchRank(param, strconv.Itoa(req.Rank), ranks)
	}
	return nil
}

// errRanks refuses a header that asks for another rank than the field before, of the body or the
// header.
func errRanks(param string, before, rank int) error {
	other := "the body"
	if param == headerRank {
		other = "another one"
	}
	return openai.BadRequest(headerRank, "The header asks for the rank "+strconv.Itoa(rank)+" and "+other+" for "+strconv.Itoa(before)+": ask for one rank.")
}

// ranksOf returns the number of ranks that a request to the model can ask for: the ranks of a
// regular worker, or the ranks common to both halves of a pair. It is 0 while no worker has
// described itself. holder restricts it to one worker; nil: all workers.
func (c *choice) ranksOf(model string, holder *worker.Worker) int {
	var most [3]int // by role
	for _, w := range c.x.h.Registry.Snapshot().Workers {
		if info := w.Info(); info != nil && routing.Serves(info, model) && (holder == nil || w == holder) {
			most[info.Role()] = max(most[info.Role()], info.DPSize)
		}
	}
	prefill, decode := most[worker.RolePrefill], most[worker.RoleDecode]
	if prefill > 0 && decode > 0 {
		prefill = min(prefill, decode)
	}
	return max(most[worker.RoleRegular], prefill, decode)
}

// nameOf names a rank to the client, or its worker alone: the engine chooses the ranks of requests
// that generate nothing, such as embeddings.
func (x *exchange) nameOf(rank *worker.Rank) string {
	if !x.inference {
		return rank.Worker.URL
	}
	return rank.ID()
}
