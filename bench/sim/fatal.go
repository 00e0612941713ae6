package sim

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// fatalBody describes the bodies that crash a worker.
type fatalBody struct {
	text []byte        // Part of a body.
	back time.Duration // Until the restart.
}

// fatalBodies counts the crashes by a request.
type fatalBodies struct {
	of    atomic.Pointer[fatalBody]
	count atomic.Int64
}

// DieOf makes the worker crash on requests as SGLang 0.5.23 does: on a token id outside the
// vocabulary, and on a body that contains text, which stands for bugs not known yet; "" is no
// text. The process resets its connections at once and restarts after back, or on
// [Faults.Restart] if that is negative.
func (f *Faults) DieOf(text string, back time.Duration) {
	f.fatal.of.Store(&fatalBody{text: []byte(text), back: back})
}

// Deaths returns the number of crashes by a request.
func (f *Faults) Deaths() int { return int(f.fatal.count.Load()) }

// matches reports whether a body crashes the worker.
func (d *fatalBody) matches(body []byte) bool {
	return len(d.text) > 0 && bytes.Contains(body, d.text) || hasUnknownToken(body)
}

// crashOnFatal serves a request unless its body crashes the worker.
func (s *httpServer) crashOnFatal(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		d := s.faults.fatal.of.Load()
		if d == nil || !d.matches(ctx.PostBody()) {
			h(ctx)
			return
		}
		if s.dying.CompareAndSwap(false, true) {
			// Otherwise one crash for all such requests until then.
			s.faults.fatal.count.Add(1)
			s.faults.order(order{crash: true, back: d.back})
		}
		<-s.ctx.Done()
		resetConn(ctx.Conn())
	}
}

// hasUnknownToken reports whether a prompt has a token id outside the vocabulary.
func hasUnknownToken(body []byte) bool {
	o := parseObject(body)
	for _, key := range []string{"input_ids", "prompt"} {
		digits, quoted := 0, false
		v := 0
		for _, c := range o.raw(key) {
			switch {
			case c == '"':
				quoted = true
			case c >= '0' && c <= '9' && digits < 10:
				v, digits = v*10+int(c-'0'), digits+1
			default:
				v, digits = 0, 0
			}
			if !quoted && v >= vocabularySize {
				return true
			}
		}
	}
	return false
}

// checkBias refuses a logit_bias as SGLang does; the error contains the size of the vocabulary.
func checkBias(o *object) error {
	raw := o.raw("logit_bias")
	if raw == nil {
		return nil
	}
	bias := parseObject(raw)
	if bias.err != nil {
		return invalid("dict_type", "logit_bias", "Input should be a valid dictionary")
	}
	for _, f := range bias.fields {
		key := string(f.key)
		if id, err := strconv.Atoi(key); err != nil || id < 0 || id >= vocabularySize {
			return refused("logit_bias must has keys in [0, %d], got %s.", vocabularySize-1, key)
		}
	}
	return nil
}
