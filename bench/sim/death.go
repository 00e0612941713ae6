package sim

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// death is what a worker dies of.
type death struct {
	text []byte        // in a body
	back time.Duration // until it is restarted
}

// deaths counts how often a worker has died of a request.
type deaths struct {
	of    atomic.Pointer[death]
	count atomic.Int64
}

// DieOf makes the worker die of requests as SGLang 0.5.23 does: of a token id outside the vocabulary, and
// of a body that holds text, which stands for what nobody knows yet; "" is no text. The process is gone at once, with
// its connections, and comes back after a while; negative: when it is restarted.
func (f *Faults) DieOf(text string, back time.Duration) {
	f.deaths.of.Store(&death{text: []byte(text), back: back})
}

// Deaths returns how often the worker has died of a request.
func (f *Faults) Deaths() int { return int(f.deaths.count.Load()) }

// kills reports whether a worker dies of a body.
func (d *death) kills(body []byte) bool {
	return len(d.text) > 0 && bytes.Contains(body, d.text) || outside(body)
}

// mortal serves a request, or dies of it.
func (s *httpServer) mortal(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		d := s.faults.deaths.of.Load()
		if d == nil || !d.kills(ctx.PostBody()) {
			h(ctx)
			return
		}
		if s.dying.CompareAndSwap(false, true) { // else one death for all that come meanwhile
			s.faults.deaths.count.Add(1)
			s.faults.order(order{crash: true, back: d.back})
		}
		<-s.ctx.Done()
		resetConn(ctx.Conn())
	}
}

// outside reports whether a prompt holds a token id that the model does not have.
func outside(body []byte) bool {
	o, err := parseObject(body)
	if err != nil {
		return false
	}
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

// biasOf judges logit_bias as SGLang does, whose refusal tells the size of the vocabulary.
func biasOf(o object) error {
	raw := o.raw("logit_bias")
	if raw == nil {
		return nil
	}
	bias, err := parseObject(raw)
	if err != nil {
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
