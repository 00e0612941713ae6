//go:build engines

package engines_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	responseTurns     = 200
	responseTalks     = 4 // open at a time
	responseTalkTurns = 8
	responsePairTurns = 24
)

// responsesClient drives responses_client.py.
type responsesClient struct {
	in  io.Writer
	out *bufio.Scanner
}

func startResponses(t *testing.T, k *keeper, dir, base string) *responsesClient {
	t.Helper()
	cmd := exec.Command(python(t), "responses_client.py", base+"/v1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, answers := io.Pipe()
	cmd.Stdout = answers
	p := spawn(t, k, dir, fmt.Sprintf("responses-%d", time.Now().UnixMilli()), cmd)
	go func() {
		<-p.dead
		answers.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &responsesClient{in: in, out: lines}
}

// responsesAnswer is a line of responses_client.py.
type responsesAnswer struct {
	ID       string     `json:"id"`
	Response string     `json:"response_status"`
	Output   []document `json:"output"`
	Prompt   int        `json:"prompt_tokens"`
	Cached   int        `json:"cached_tokens"`
	Worker   string     `json:"worker"`
	Prefill  string     `json:"prefill"`
	Overlap  string     `json:"overlap"`
	Source   string     `json:"source"`
	Events   []string   `json:"events"`
	TTFT     float64    `json:"ttft"`
	Error    string     `json:"error"`
	Status   int        `json:"status"`
	Kind     string     `json:"kind"`
}

func (c *responsesClient) ask(request document) (a responsesAnswer) {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err == nil && !c.out.Scan() {
		err = errors.Join(errors.New("responses_client.py ended"), c.out.Err())
	}
	if err == nil {
		err = json.Unmarshal(c.out.Bytes(), &a)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// outcome returns the answer as the other tests read it.
func (a *responsesAnswer) outcome(api string, stream bool) outcome {
	o := outcome{api: api, worker: a.Worker, helper: a.Prefill, header: a.Overlap, prompt: a.Prompt, cached: a.Cached}
	if stream {
		o.api += ", stream"
	}
	o.ttft = time.Duration(a.TTFT * float64(time.Second))
	if a.Error != "" {
		o.err = errors.New(a.Error)
	}
	return o
}

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
func (a *turnTalk) next(c *responsesClient) outcome {
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

// talkResponses holds so many turns, of a few conversations at a time, one turn after the other.
func talkResponses(c *responsesClient, seed uint64, turns int) (all []outcome) {
	talks := make([]*turnTalk, responseTalks)
	for n, opened := 0, 0; n < turns; n++ {
		i := n % responseTalks
		if talks[i] == nil || talks[i].turn >= responseTalkTurns {
			talks[i] = newTurnTalk(seed, opened)
			opened++
		}
		began := time.Now()
		o := talks[i].next(c)
		o.at, o.took = began, time.Since(began)
		all = append(all, o)
		if o.err != nil {
			return all
		}
		<-time.After(pause)
	}
	return all
}

// turnFlags give the tiny model a template with tools and thinking, and a store of responses.
func turnFlags(t *testing.T) []string {
	t.Helper()
	template, err := filepath.Abs("testdata/turns.jinja")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--chat-template", template, "--reasoning-parser", "qwen3", "--tool-call-parser", "qwen"}
}

// TestRealResponses holds conversations of agents over /v1/responses, with the openai client.
func TestRealResponses(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	stores := append(turnFlags(t), "--enable-response-store")
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
		{index: 1, backend: "nixl", mode: "prefill", flags: turnFlags(t)}, {index: 0, backend: "nixl", mode: "decode", flags: turnFlags(t)},
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
	client := startResponses(t, p.keeper, p.dir, r.url)
	talkResponses(client, 40, 32) // which prove the conversion
	for _, e := range p.engines {
		e.flush(t)
	}
	m := measure("one at a time, responses", "kv", func() []outcome { return talkResponses(client, 41, responseTurns) })
	p.add(t, m)
	p.notes.WriteString(table([]measured{m}, p.engines))
	r.waitIdle(t)
}

// responsesStored continues, shows and cancels stored responses through two routers, and compares errors with those of an engine.
func (p *proof) responsesStored(t *testing.T) {
	r, other := startRouter(t, p.keeper, p.dir, p.binary, "round-robin", p.engines), startRouter(t, p.keeper, p.dir, p.binary, "round-robin", p.engines)
	defer r.proc.stop(5 * time.Second)
	defer other.proc.stop(5 * time.Second)
	client, second := startResponses(t, p.keeper, p.dir, r.url), startResponses(t, p.keeper, p.dir, other.url)
	engine := startResponses(t, p.keeper, p.dir, p.engines[0].url)
	for n := range 6 {
		first := client.ask(document{"stream": n%2 == 1, "body": document{"input": fmt.Sprintf("hello %d", n), "max_output_tokens": 8}})
		for i, c := range []*responsesClient{client, second} {
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

// responsesClientGone leaves long answers early; the engines must stop.
func (p *proof) responsesClientGone(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		body := newTurnTalk(44, 0).body()
		body["model"], body["max_output_tokens"], body["stream"] = "tiny", 1200, stream
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/responses", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		go func() {
			if answer, err := http.DefaultClient.Do(request); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
		await := func(want int) time.Duration {
			for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
				n := 0
				for _, e := range p.engines {
					n += e.running(t)
				}
				if took := time.Since(began); n == want || took > patience {
					if n != want {
						t.Fatalf("stream %v: %d requests run instead of %d", stream, n, want)
					}
					return took
				}
			}
		}
		await(1)
		leave()
		p.note(t, "responses, stream %v: the engine is idle %.2f s after its client left", stream, await(0).Seconds())
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
	pair := startResponses(t, p.keeper, p.dir, r.url)
	texts := func(a responsesAnswer) (all []any) {
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
