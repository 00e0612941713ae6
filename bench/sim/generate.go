package sim

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// generateDefault is the default max_new_tokens of /generate.
const generateDefault = 128

// generatePrompts reads text or input_ids; list is true for a list of prompts.
func generatePrompts(o object) (prompts [][]uint32, list bool, err error) {
	if raw := o.raw("input_ids"); raw != nil {
		if raw[0] != '[' {
			return nil, false, invalid("value_error", "input_ids", "Value error, must be list or null")
		}
		return idLists(raw, "input_ids")
	}
	raw := o.raw("text")
	if raw == nil {
		return nil, false, refused("Either text, input_ids or input_embeds should be provided.")
	}
	texts, err := o.texts("text")
	for _, t := range texts {
		prompts = append(prompts, encode([]byte(t)))
	}
	if err == nil && len(prompts) == 0 {
		err = refused("text cannot be empty.")
	}
	return prompts, raw[0] == '[', err
}

// generateSampling reads sampling_params: one for all prompts, or one for each.
func generateSampling(o object) ([]sampling, error) {
	raw := o.raw("sampling_params")
	if raw == nil {
		return []sampling{{max: generateDefault, n: 1}}, nil
	}
	if raw[0] != '[' {
		p, err := generateParams(raw)
		return []sampling{p}, err
	}
	v, err := o.value("sampling_params")
	if err != nil {
		return nil, err
	}
	var all []sampling
	for _, one := range v.GetArray() {
		p, err := generateParams(one.MarshalTo(nil))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, refused("sampling_params cannot be empty.")
	}
	return all, nil
}

func generateParams(raw []byte) (sampling, error) {
	o, err := parseObject(raw)
	if err != nil {
		return sampling{}, invalid("dict_type", "sampling_params", "Input should be a valid dictionary")
	}
	p, err := parseSampling(o)
	if err != nil {
		return p, err
	}
	if p.max, err = o.number("max_new_tokens", generateDefault); err != nil {
		return p, err
	}
	if p.max < 0 {
		return p, refused("max_new_tokens must be at least 0, got %d.", p.max)
	}
	return p, nil
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
	dst = append(dst, `{"text":`...)
	dst = appendJSONString(dst, answerText(r, p))
	dst = append(dst, `,"output_ids":`...)
	dst = appendIDs(dst, p.out)
	dst = append(dst, `,"meta_info":{"id":`...)
	dst = appendJSONString(dst, r.id)
	dst = append(dst, `,"finish_reason":`...)
	dst = appendNativeReason(dst, p)
	dst = append(dst, `,"prompt_tokens":`...)
	dst = appendInt(dst, len(r.prompt))
	dst = append(dst, `,"weight_version":"default","num_retractions":0,"storage_prefetch_wait":0.0,"storage_staging_wait":0.0`...)
	dst = append(dst, `,"forward_entry_time":`...)
	dst = appendStamp(dst, p.times.scheduled)
	dst = append(dst, `,"prefill_finished_time":`...)
	dst = appendStamp(dst, p.times.first)
	dst = append(dst, `,"queue_time":`...)
	dst = appendFloat(dst, max(0, p.times.scheduled.Sub(p.times.received).Seconds()))
	if j.logprobs {
		dst = appendLogprobs(dst, r, p.out, j.top)
	}
	dst = append(dst, `,"reasoning_tokens":0,"completion_tokens":`...)
	dst = appendInt(dst, len(p.out))
	dst = append(dst, `,"cached_tokens":`...)
	dst = appendInt(dst, p.cached)
	if p.reason.kind != "" {
		dst = append(dst, `,"weight_versions":[{"version":"default","start":0,"end":`...)
		dst = append(appendInt(dst, len(p.out)), "}]"...)
	}
	dst = append(dst, `,"cached_tokens_details":`...)
	dst = appendCachedDetails(dst, p.cached)
	dst = append(dst, `,"dp_rank":`...)
	dst = appendRank(dst, r.home)
	dst = appendNativeTimes(dst, r, sent, p)
	return append(dst, "}}"...)
}

func appendCachedDetails(dst []byte, cached int) []byte {
	if cached == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"device":`...)
	return append(appendInt(dst, cached), `,"host":0}`...)
}

// appendRank appends null on a worker of one rank, as SGLang does.
func appendRank(dst []byte, k *rank) []byte {
	if k.cfg.DPSize == 1 {
		return append(dst, "null"...)
	}
	return appendInt(dst, k.id)
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
	dst = append(dst, `,"e2e_latency":`...)
	dst = appendFloat(dst, t.finished.Sub(t.received).Seconds())
	dst = append(dst, `,"request_received_ts":`...)
	dst = appendStamp(dst, t.received)
	dst = append(dst, `,"first_token_latency":`...)
	dst = appendFloat(dst, max(0, t.first.Sub(t.received).Seconds()))
	dst = append(dst, `,"api_server_dispatch_finish_ts":`...)
	dst = appendStamp(dst, t.received)
	if !r.answered.IsZero() {
		dst = appendSent(dst, r.answered)
	}
	dst = append(dst, `,"request_finished_ts":`...)
	dst = appendStamp(dst, t.finished)
	if d := t.finished.Sub(t.first).Seconds(); len(p.out) > 1 && d > 0 {
		dst = append(dst, `,"decode_throughput":`...)
		dst = appendFloat(dst, float64(len(p.out)-1)/d)
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
	case f.kind == "abort":
		dst = append(dst, `{"type":"abort","message":`...)
		dst = append(appendJSONString(dst, f.message), `,"status_code":`...)
		if f.status == 0 {
			return append(dst, `null,"err_type":null}`...)
		}
		return append(appendInt(dst, f.status), `,"err_type":null}`...)
	case f.handed:
		return append(dst, `{"type":"length","length":0}`...)
	case f.kind == "length":
		dst = append(dst, `{"type":"length","length":`...)
		return append(appendInt(dst, len(p.out)), '}')
	case f.hasToken:
		dst = append(dst, `{"type":"stop","matched":`...)
		return append(strconv.AppendUint(dst, uint64(f.token), 10), '}')
	default:
		dst = append(dst, `{"type":"stop","matched":`...)
		return append(appendJSONString(dst, f.matched), '}')
	}
}
