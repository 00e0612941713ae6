//go:build engines

package engines_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	responseTurns     = 200
	responseTalkTurns = 8
	responsePairTurns = 24
)

// turnTalk is a conversation in turns of /v1/responses, which calls a tool in each turn.
type turnTalk struct {
	rnd          *rand.Rand
	instructions string
	tools        []document
	items        []document // of the whole conversation, or since the last response
	previous     string
	stored       bool // the engine stores the conversation
	turn         int
}

func newTurnTalk(seed uint64, n int) *turnTalk {
	shared := rand.New(rand.NewPCG(seed, 1<<32))
	a := &turnTalk{rnd: rand.New(rand.NewPCG(seed, uint64(n))), instructions: sentence(shared, 80), stored: n%2 == 1}
	a.tools = []document{
		{"type": "function", "name": "shell", "description": sentence(shared, 20), "strict": false, "parameters": document{
			"type": "object", "properties": document{"command": document{"type": "array", "items": document{"type": "string"}}}, "required": []string{"command"},
		}},
		{"type": "custom", "name": "apply_patch", "description": sentence(shared, 10), "format": document{
			"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin\" /.+/\n",
		}},
		{"type": "web_search"},
	}
	if n%4 >= 2 {
		a.tools = nil
	}
	a.items = []document{
		{"type": "message", "role": "developer", "content": []document{{"type": "input_text", "text": sentence(a.rnd, 10)}}},
		{"type": "message", "role": "user", "content": fmt.Sprintf("talk %d: %s", n, sentence(a.rnd, 20))},
	}
	return a
}

// turnTalks opens conversations.
func turnTalks(seed uint64) func(int) talk {
	return func(nth int) talk { return newTurnTalk(seed, nth) }
}

func (a *turnTalk) turns() int { return a.turn }

func (a *turnTalk) body() document {
	b := document{
		"max_output_tokens": 10, "temperature": 0, "instructions": a.instructions, "input": a.items, "store": a.stored,
		"include": []string{"reasoning.encrypted_content"}, "parallel_tool_calls": false, "prompt_cache_key": "0199",
	}
	if a.tools != nil {
		b["tools"], b["tool_choice"] = a.tools, "auto"
	}
	if a.turn%3 == 2 {
		b["reasoning"] = document{"effort": "none"}
	}
	if a.previous != "" {
		b["previous_response_id"] = a.previous
	}
	return b
}

// next sends the next turn, and adds the answer, a call of a tool and its result to the conversation.
func (a *turnTalk) next(c *apiClient) outcome {
	stream, api := a.turn%2 == 1, "responses"
	if a.stored {
		api = "stored responses"
	}
	answer := c.ask(document{"stream": stream, "body": a.body()})
	if answer.Error != "" {
		return answer.outcome(api, stream)
	}
	a.turn++
	if a.stored {
		a.previous, a.items = answer.ID, nil
	} else {
		a.items = append(a.items, answer.Output...)
	}
	id := fmt.Sprintf("call_%d", a.turn)
	switch {
	case a.tools == nil:
		a.items = append(a.items, document{"role": "user", "content": sentence(a.rnd, 40)})
	case a.turn%3 == 0:
		a.items = append(a.items,
			document{"type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": "*** Begin\n\"" + sentence(a.rnd, 8) + "\"\\"},
			document{"type": "custom_tool_call_output", "call_id": id, "output": sentence(a.rnd, 30)})
	default:
		arguments, _ := json.Marshal(document{"command": []any{"cat", sentence(a.rnd, 4)}, "timeout": 1.5, "deep": nil})
		output := any(sentence(a.rnd, 30))
		if a.turn%2 == 0 {
			output = []document{{"type": "input_text", "text": sentence(a.rnd, 15)}, {"type": "input_text", "text": sentence(a.rnd, 15)}}
		}
		a.items = append(a.items,
			document{"type": "function_call", "call_id": id, "name": "shell", "arguments": string(arguments)},
			document{"type": "function_call_output", "call_id": id, "output": output})
	}
	return answer.outcome(api, stream)
}

// TestRealResponses holds conversations of agents over /v1/responses, with the openai client.
func TestRealResponses(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	stores := append(toolFlags(t, "turns.jinja"), "--enable-response-store")
	p.engines = []*engine{{index: 0, flags: stores}, {index: 1, flags: stores}}
	launch(t, p.keeper, dir, p.engines)
	waitAll(t, p.engines)
	t.Run("overlap", p.responsesOverlap)
	t.Run("stored", p.responsesStored)
	t.Run("client gone", p.responsesClientGone)
	t.Run("hostile", p.responsesHostile)
	keep(t, "responses.txt", p.notes.String())
	keep(t, "env-responses.txt", environment(t))
}

// TestRealResponsePairs asks a pair over /v1/responses.
func TestRealResponsePairs(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	p.engines = []*engine{
		{index: 1, backend: "nixl", mode: "prefill", flags: toolFlags(t, "turns.jinja")}, {index: 0, backend: "nixl", mode: "decode", flags: toolFlags(t, "turns.jinja")},
	}
	launch(t, p.keeper, dir, p.engines)
	waitAll(t, p.engines)
	p.responsesPairs(t)
	keep(t, "response-pairs.txt", p.notes.String())
	keep(t, "env-response-pairs.txt", environment(t))
}

// responsesOverlap compares the router's expectation with the engines' reports.
func (p *proof) responsesOverlap(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	client := startClient(t, p.keeper, p.dir, "responses_client.py", r.url+"/v1")
	holdTalks(client, 32, responseTalkTurns, turnTalks(40)) // which prove the conversion
	for _, e := range p.engines {
		e.flush(t)
	}
	m := measure("one at a time, responses", "kv", func() []outcome { return holdTalks(client, responseTurns, responseTalkTurns, turnTalks(41)) })
	p.add(t, m)
	p.notes.WriteString(table([]measured{m}, p.engines))
	r.waitIdle(t)
}

// responsesStored continues, shows and cancels stored responses through two routers, and compares errors with those of an engine.
func (p *proof) responsesStored(t *testing.T) {
	r, other := startRouter(t, p.keeper, p.dir, p.binary, "round-robin", p.engines), startRouter(t, p.keeper, p.dir, p.binary, "round-robin", p.engines)
	defer r.proc.stop(5 * time.Second)
	defer other.proc.stop(5 * time.Second)
	client, second := startClient(t, p.keeper, p.dir, "responses_client.py", r.url+"/v1"), startClient(t, p.keeper, p.dir, "responses_client.py", other.url+"/v1")
	engine := startClient(t, p.keeper, p.dir, "responses_client.py", p.engines[0].url+"/v1")
	for n := range 6 {
		first := client.ask(document{"stream": n%2 == 1, "body": document{"input": fmt.Sprintf("hello %d", n), "max_output_tokens": 8}})
		for i, c := range []*apiClient{client, second} {
			next := c.ask(document{"stream": i == 1, "body": document{"input": "and", "previous_response_id": first.ID, "max_output_tokens": 8}})
			shown := c.ask(document{"get": first.ID})
			if first.Error+next.Error+shown.Error != "" || next.Worker != first.Worker || shown.Worker != first.Worker || shown.ID != first.ID {
				t.Errorf("made by %s (%s), continued by %s (%s), shown by %s (%s)", first.Worker, first.Error, next.Worker, next.Error, shown.Worker, shown.Error)
			}
		}
	}
	long := client.ask(document{"stream": false, "body": document{"input": "x", "background": true, "max_output_tokens": 1500}})
	if a := second.ask(document{"cancel": long.ID}); long.Response != "queued" || a.Response != "cancelled" {
		t.Errorf("a response in the background is %q (%s) and then %q (%s)", long.Response, long.Error, a.Response, a.Error)
	}
	r.waitStatus(t, "ended", func(st routerStatus) bool { return st.InFlight == 0 })
	for _, e := range p.engines {
		for began := time.Now(); e.running(t) > 0; <-time.After(20 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("%s goes on with a cancelled response", e.name())
			}
		}
	}
	for name, request := range map[string]document{
		"unknown id":       {"body": document{"input": "x", "previous_response_id": "resp_x"}},
		"bad id":           {"body": document{"input": "x", "previous_response_id": "x"}},
		"shown, unknown":   {"get": "resp_x"},
		"shell":            {"body": document{"input": "x", "tools": []document{{"type": "shell"}}}},
		"unknown tool":     {"body": document{"input": "x", "tools": []document{{"type": "nope"}}}},
		"item reference":   {"body": document{"input": []document{{"type": "item_reference", "id": "x"}}}},
		"no tool to force": {"body": document{"input": "x", "tool_choice": "required"}},
		"no input":         {"body": document{}},
	} {
		for _, stream := range []bool{false, true} {
			request["stream"] = stream
			got, want := client.ask(request), engine.ask(request)
			if got.Status != want.Status || got.Kind != want.Kind || got.Status == 0 {
				t.Errorf("%s, stream %v: status %d %q (%s), an engine answers %d %q (%s)", name, stream, got.Status, got.Kind, got.Error, want.Status, want.Kind, want.Error)
			}
		}
	}
	r.waitIdle(t)
}

// responsesClientGone leaves long answers early.
func (p *proof) responsesClientGone(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		body := newTurnTalk(44, 0).body()
		body["model"], body["max_output_tokens"], body["stream"] = "tiny", 1200, stream
		p.leaveEarly(t, r, "/v1/responses", body)
	}
	r.waitIdle(t)
}

// responsesHostile sends fields of wrong kinds and sizes: no engine behind a router dies of them.
func (p *proof) responsesHostile(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	fields := []string{
		"max_output_tokens", "top_k", "top_logprobs", "priority", "min_p", "top_p", "temperature", "frequency_penalty", "presence_penalty",
		"repetition_penalty", "routed_dp_rank", "bootstrap_room", "bootstrap_port", "disagg_prefill_dp_rank", "stop", "cache_salt", "extra_key",
		"session_id", "request_id", "user", "text", "include", "reasoning", "chat_template_kwargs", "metadata", "input", "tools", "tool_choice",
	}
	values := []string{
		`0`, `-1`, `2`, `2147483648`, `1099511627776`, `9223372036854775808`, `1180591620717411303424`, `-1180591620717411303424`, `1e308`, `-1e308`,
		`0.5`, `"5"`, `"1_000_000_000_000"`, `""`, `[""]`, `[]`, `{}`, `true`, `null`, `"\u0000"`,
	}
	var bodies []string
	for _, field := range fields {
		for _, value := range values {
			bodies = append(bodies, fmt.Sprintf(`{"model":"tiny","input":"hi","max_output_tokens":6,%q:%s}`, field, value))
		}
	}
	for _, more := range []string{
		`"include":["message.output_text.logprobs"],"top_logprobs":2147483648`, `"include":["message.output_text.logprobs"],"top_logprobs":1000`,
		`"include":["message.output_text.logprobs"],"top_logprobs":-3`, `"text":{"format":{"type":"json_schema","name":"n","schema":{"$ref":"#"}}}`,
		`"text":{"format":{"type":"json_schema","name":"n","schema":{"pattern":"("}}}`, `"text":{"format":{"type":"json_object"}}`,
		`"tools":[{"type":"function","name":"f"}],"tool_choice":"required"`, `"chat_template_kwargs":{"chat_template":"{{ 1/0 }}"}`,
		`"chat_template_kwargs":{"messages":[],"tokenize":true,"return_tensors":"pt","max_length":1}`, `"input":[{"role":"user","content":""}]`,
		`"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]`, `"n":10000000`, `"lora_path":"x"`,
		`"stop_token_ids":[1000000000],"min_tokens":5`, `"logit_bias":{"99999999":1}`, `"background":true`, `"request_id":"resp_same"`, `"request_id":"resp_same"`,
		`"input":"` + strings.Repeat("x", 20000) + `"`, `"stop":["` + strings.Repeat(`a","`, 2000) + `"]`,
	} {
		bodies = append(bodies, `{"model":"tiny","input":"hi","max_output_tokens":6,`+more+`}`)
	}
	statuses := map[int]int{}
	for n, body := range bodies {
		if n%2 == 1 {
			body = strings.TrimSuffix(body, "}") + `,"stream":true}`
		}
		status, answer := r.answerTo(t, "/v1/responses", body)
		if statuses[status]++; status >= http.StatusInternalServerError {
			t.Logf("%.200s: %d %.200s", body, status, answer)
		}
		if living(p.engines) != len(p.engines) {
			t.Fatalf("the engine died of %.300s", body)
		}
	}
	status, answer := r.answerTo(t, "/v1/responses", `{"model":"tiny","input":"hi","max_output_tokens":6}`)
	if p.note(t, "responses, %d hostile bodies: statuses %v", len(bodies), statuses); status != http.StatusOK {
		t.Errorf("afterwards: %d %s", status, answer)
	}
}

// responsesPairs asks a pair each thing twice, streamed and not.
func (p *proof) responsesPairs(t *testing.T) {
	t.Helper()
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	pair := startClient(t, p.keeper, p.dir, "responses_client.py", r.url+"/v1")
	texts := func(a apiAnswer) (all []any) {
		for _, item := range a.Output {
			all = append(all, item["type"], item["content"], item["name"], item["arguments"])
		}
		return all
	}
	equal, asked := 0, 0
	m := measure("responses, pairs", "kv", func() (all []outcome) {
		for n := range responsePairTurns / responseTalkTurns {
			talk := newTurnTalk(50, 2*n) // pairs store nothing
			for range responseTalkTurns {
				body, began := talk.body(), time.Now()
				streamed := pair.ask(document{"stream": true, "body": body})
				o := streamed.outcome("responses, pairs", true)
				o.at, o.took = began, time.Since(began)
				<-time.After(pause)
				whole := pair.ask(document{"stream": false, "body": body})
				if all = append(all, o); o.err != nil || whole.Error != "" {
					t.Errorf("streamed: %v; whole: %s", o.err, whole.Error)
					return all
				}
				if asked++; reflect.DeepEqual(texts(streamed), texts(whole)) && streamed.Prompt == whole.Prompt {
					equal++
				}
				if streamed.Worker != p.engines[1].url || streamed.Prefill != p.engines[0].url {
					t.Errorf("answered by %q and %q", streamed.Prefill, streamed.Worker)
				}
				<-time.After(pause)
				talk.next(pair)
				<-time.After(pause)
			}
		}
		return all
	})
	p.note(t, "responses, pairs: %d of %d streams have the text of the whole answer", equal, asked)
	p.notes.WriteString(table([]measured{m}, p.engines))
	t.Logf("\n%s\n%s", table([]measured{m}, p.engines), mismatches(&m, 10))
	if equal*10 < asked*9 {
		t.Errorf("%d of %d streams have the text of the whole answer", equal, asked)
	}
	if v := m.overlap(); v.share() < 0.8 {
		t.Errorf("pairs: the overlap is as expected on %.3f", v.share())
	}
	if a := pair.ask(document{"stream": false, "body": document{"input": "x", "previous_response_id": "resp_x"}}); a.Status != 400 {
		t.Errorf("a pair stores nothing, and answers with status %d (%s)", a.Status, a.Error)
	}
	r.waitIdle(t)
}
