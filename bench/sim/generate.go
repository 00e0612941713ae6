package sim

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// generateDefault is the default max_new_tokens of /generate.
const generateDefault = 128

// generatePrompts reads text or input_ids; list is true for a list of prompts.
func generatePrompts(o *object) (prompts [][]uint32, list bool) {
	if raw := o.raw("input_ids"); raw != nil {
		if raw[0] != '[' {
			o.fail(invalid("value_error", "input_ids", "Value error, must be list or null"))
			return nil, false
		}
		return o.idLists("input_ids")
	}
	raw := o.raw("text")
	if raw == nil {
		o.fail(refused("Either text, input_ids or input_embeds should be provided."))
		return nil, false
	}
	if prompts = o.prompts("text"); len(prompts) == 0 {
		o.fail(refused("text cannot be empty."))
	}
	return prompts, raw[0] == '['
}

// generateSampling reads sampling_params: one for all prompts, or one for each.
func generateSampling(o *object) (all []sampling) {
	raw := o.raw("sampling_params")
	if raw == nil {
		return []sampling{{max: generateDefault, n: 1}}
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' && json.Unmarshal(raw, &list) != nil {
		o.fail(errJSON)
	}
	for _, one := range list {
		of := parseObject(one)
		if of.err != nil {
			of.err = invalid("dict_type", "sampling_params", "Input should be a valid dictionary")
		}
		p := parseSampling(of)
		p.limit(of, "max_new_tokens", generateDefault)
		o.fail(of.err)
		all = append(all, p)
	}
	if len(all) == 0 {
		o.fail(refused("sampling_params cannot be empty."))
		all = make([]sampling, 1)
	}
	return all
}

// nativeFormat is the format of /generate.
type nativeFormat struct{}

func (nativeFormat) whole(dst []byte, j *job, ps []progress) []byte {
	if !j.list {
		return appendNative(dst, j, 0, 0, ps[0])
	}
	dst = append(dst, '[')
	for i, p := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNative(dst, j, i, 0, p)
	}
	return append(dst, ']')
}

func (nativeFormat) begin(dst []byte, _ *job, _ int) []byte { return dst }

// chunk appends the whole text so far, not only the new part.
func (nativeFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	if sent == 0 {
		j.reqs[i].answered = time.Now()
	}
	dst = append(dst, "data: "...)
	dst = appendNative(dst, j, i, sent, p)
	if j.list {
		dst = append(dst[:len(dst)-1], `,"index":`...)
		dst = append(appendInt(dst, i), '}')
	}
	return append(dst, "\n\n"...)
}

func (nativeFormat) reportsAborts() bool { return true }

func (nativeFormat) end(dst []byte, _ *job, _ []progress) []byte { return append(dst, doneEvent...) }

func (nativeFormat) failed(dst []byte, _ *job, f finishReason) []byte { return errorEvent(dst, f) }

func (nativeFormat) refuse(ctx *fasthttp.RequestCtx, p *problem) { p.native(ctx) }

// appendNative appends the answer of one sequence so far; sent tokens were in earlier events.
func appendNative(dst []byte, j *job, i, sent int, p progress) []byte {
	r := j.reqs[i]
	dst = appendJSONString(append(dst, `{"text":`...), answerText(r, p))
	dst = appendIDs(append(dst, `,"output_ids":`...), p.out)
	dst = appendNativeReason(fmt.Appendf(dst, `,"meta_info":{"id":%s,"finish_reason":`, quoted(r.id)), p)
	dst = fmt.Appendf(dst, `,"prompt_tokens":%d,"weight_version":"default","num_retractions":0,"storage_prefetch_wait":0.0,"storage_staging_wait":0.0`, len(r.prompt))
	dst = appendStamp(append(dst, `,"forward_entry_time":`...), p.times.scheduled)
	dst = appendStamp(append(dst, `,"prefill_finished_time":`...), p.times.first)
	dst = appendFloat(append(dst, `,"queue_time":`...), max(0, p.times.scheduled.Sub(p.times.received).Seconds()))
	if j.logprobs {
		dst = appendLogprobs(dst, r, p.out, j.top)
	}
	dst = fmt.Appendf(dst, `,"reasoning_tokens":0,"completion_tokens":%d,"cached_tokens":%d`, len(p.out), p.cached)
	if p.reason.kind != "" {
		dst = fmt.Appendf(dst, `,"weight_versions":[{"version":"default","start":0,"end":%d}]`, len(p.out))
	}
	details, rank := "null", "null" // of no cached token, and on a worker of one rank
	if p.cached > 0 {
		details = fmt.Sprintf(`{"device":%d,"host":0}`, p.cached)
	}
	if k := r.home; k.cfg.DPSize > 1 {
		rank = strconv.Itoa(k.id)
	}
	dst = fmt.Appendf(dst, `,"cached_tokens_details":%s,"dp_rank":%s`, details, rank)
	return append(appendNativeTimes(dst, r, sent, p), "}}"...)
}

// appendNativeTimes appends the fields of the last event, and in the first and last one the
// time of the first event.
func appendNativeTimes(dst []byte, r *request, sent int, p progress) []byte {
	if p.reason.kind == "" {
		if sent > 0 {
			return dst
		}
		return appendSent(dst, r.answered)
	}
	t := p.times
	dst = appendFloat(append(dst, `,"e2e_latency":`...), t.finished.Sub(t.received).Seconds())
	dst = appendStamp(append(dst, `,"request_received_ts":`...), t.received)
	dst = appendFloat(append(dst, `,"first_token_latency":`...), max(0, t.first.Sub(t.received).Seconds()))
	dst = appendStamp(append(dst, `,"api_server_dispatch_finish_ts":`...), t.received)
	if !r.answered.IsZero() {
		dst = appendSent(dst, r.answered)
	}
	dst = appendStamp(append(dst, `,"request_finished_ts":`...), t.finished)
	if d := t.finished.Sub(t.first).Seconds(); len(p.out) > 1 && d > 0 {
		dst = appendFloat(append(dst, `,"decode_throughput":`...), float64(len(p.out)-1)/d)
	}
	if r.answered.IsZero() { // Not streamed.
		dst = appendSent(dst, time.Now())
	}
	return dst
}

func appendSent(dst []byte, t time.Time) []byte {
	return appendStamp(append(dst, `,"response_sent_to_client_ts":`...), t)
}

func appendNativeReason(dst []byte, p progress) []byte {
	switch f := p.reason; {
	case f.kind == "":
		return append(dst, "null"...)
	case f.kind == "abort" && f.status == 0:
		return fmt.Appendf(dst, `{"type":"abort","message":%s,"status_code":null,"err_type":null}`, quoted(f.message))
	case f.kind == "abort":
		return fmt.Appendf(dst, `{"type":"abort","message":%s,"status_code":%d,"err_type":null}`, quoted(f.message), f.status)
	case f.handed:
		return append(dst, `{"type":"length","length":0}`...)
	case f.kind == "length":
		return fmt.Appendf(dst, `{"type":"length","length":%d}`, len(p.out))
	case f.hasToken:
		return fmt.Appendf(dst, `{"type":"stop","matched":%d}`, f.token)
	default:
		return fmt.Appendf(dst, `{"type":"stop","matched":%s}`, quoted(f.matched))
	}
}
