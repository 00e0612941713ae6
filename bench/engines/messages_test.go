//go:build engines

package engines_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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
	messageTurns     = 200
	messageTalks     = 4 // open at a time
	messageTalkTurns = 6
	messagePairTurns = 36
)

// anthropicClient drives anthropic_client.py.
type anthropicClient struct {
	in  io.Writer
	out *bufio.Scanner
}

func startAnthropic(t *testing.T, k *keeper, dir, base string) *anthropicClient {
	t.Helper()
	cmd := exec.Command(python(t), "anthropic_client.py", base)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, answers := io.Pipe()
	cmd.Stdout = answers
	p := spawn(t, k, dir, fmt.Sprintf("anthropic-%d", time.Now().UnixMilli()), cmd)
	go func() {
		<-p.dead
		answers.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &anthropicClient{in: in, out: lines}
}

// anthropicAnswer is a line of anthropic_client.py.
type anthropicAnswer struct {
	Content []document `json:"content"`
	Prompt  int        `json:"prompt_tokens"`
	Cached  int        `json:"cached_tokens"`
	Worker  string     `json:"worker"`
	Prefill string     `json:"prefill"`
	Overlap string     `json:"overlap"`
	Source  string     `json:"source"`
	TTFT    float64    `json:"ttft"`
	Error   string     `json:"error"`
	Status  int        `json:"status"`
	Kind    string     `json:"kind"`
}

func (c *anthropicClient) ask(request document) (a anthropicAnswer) {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err == nil && !c.out.Scan() {
		err = errors.Join(errors.New("anthropic_client.py ended"), c.out.Err())
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
func (a *anthropicAnswer) outcome(stream bool) outcome {
	o := outcome{api: "messages", worker: a.Worker, helper: a.Prefill, header: a.Overlap, prompt: a.Prompt, cached: a.Cached}
	if stream {
		o.api += ", stream"
	}
	o.ttft = time.Duration(a.TTFT * float64(time.Second))
	if a.Error != "" {
		o.err = errors.New(a.Error)
	}
	return o
}

// agentTalk is a conversation of an agent, which calls a tool in each turn.
type agentTalk struct {
	rnd      *rand.Rand
	system   []document
	tools    []document
	messages []document
	turn     int
}

func newAgentTalk(seed uint64, n int) *agentTalk {
	cache := document{"type": "ephemeral"}
	shared := rand.New(rand.NewPCG(seed, 1<<32))
	a := &agentTalk{rnd: rand.New(rand.NewPCG(seed, uint64(n)))}
	a.system = []document{
		{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"},
		{"type": "text", "text": sentence(shared, 80), "cache_control": cache},
	}
	for _, name := range []string{"Read", "Bash"} {
		a.tools = append(a.tools, document{
			"name": name, "description": sentence(shared, 20), "input_schema": document{
				"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
				"properties": document{"path": document{"type": "string"}}, "required": []string{"path"}, "additionalProperties": false,
			},
		})
	}
	if n%4 == 3 {
		a.tools = nil
	}
	a.messages = []document{{"role": "user", "content": []document{
		{"type": "text", "text": "<system-reminder>\n" + sentence(a.rnd, 20) + "\n</system-reminder>\n"},
		{"type": "text", "text": fmt.Sprintf("talk %d: %s", n, sentence(a.rnd, 20)), "cache_control": cache},
	}}}
	return a
}

func (a *agentTalk) body() document {
	b := document{
		"model": "tiny", "max_tokens": 8, "temperature": 0, "system": a.system, "messages": a.messages,
		"metadata": document{"user_id": "user_1_account__session_1"},
	}
	if a.tools != nil {
		b["tools"] = a.tools
	}
	if a.turn%3 == 2 {
		b["thinking"] = document{"type": "disabled"}
	}
	return b
}

// next sends the next turn, and adds the answer, a call of a tool and its result to the conversation.
func (a *agentTalk) next(c *anthropicClient) outcome {
	stream := a.turn%2 == 1
	answer := c.ask(document{"stream": stream, "body": a.body()})
	if answer.Error != "" {
		return answer.outcome(stream)
	}
	a.turn++
	var content []document
	for _, block := range answer.Content {
		if text, ok := block["text"].(string); ok && text == "" {
			continue
		}
		content = append(content, block)
	}
	id := fmt.Sprintf("toolu_%d", a.turn)
	if a.tools == nil {
		content = append(content, document{"type": "text", "text": "."})
		a.messages = append(a.messages, document{"role": "assistant", "content": content}, document{"role": "user", "content": sentence(a.rnd, 40)})
		return answer.outcome(stream)
	}
	content = append(content, document{"type": "tool_use", "id": id, "name": "Bash", "input": document{
		"path": sentence(a.rnd, 8), "limit": a.turn, "deep": []any{1.5, nil, true},
	}})
	result := document{"type": "tool_result", "tool_use_id": id, "content": sentence(a.rnd, 40)}
	if a.turn%2 == 0 {
		result["content"] = []document{{"type": "text", "text": sentence(a.rnd, 20)}, {"type": "text", "text": sentence(a.rnd, 20)}}
		result["is_error"] = true
	}
	a.messages = append(a.messages, document{"role": "assistant", "content": content}, document{"role": "user", "content": []document{
		result, {"type": "text", "text": "<system-reminder>" + sentence(a.rnd, 6) + "</system-reminder>"},
	}})
	return answer.outcome(stream)
}

// talkMessages holds so many turns, of a few conversations at a time, one turn after the other.
func talkMessages(c *anthropicClient, seed uint64, turns int) (all []outcome) {
	talks := make([]*agentTalk, messageTalks)
	for n, opened := 0, 0; n < turns; n++ {
		i := n % messageTalks
		if talks[i] == nil || talks[i].turn >= messageTalkTurns {
			talks[i] = newAgentTalk(seed, opened)
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

// agentFlags give the tiny model a template with tools and thinking.
func agentFlags(t *testing.T) []string {
	t.Helper()
	template, err := filepath.Abs("testdata/agent.jinja")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--chat-template", template, "--reasoning-parser", "qwen3", "--tool-call-parser", "qwen"}
}

// TestRealMessages holds conversations of agents over /v1/messages, with the anthropic client.
func TestRealMessages(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	p.engines = []*engine{{index: 0, flags: agentFlags(t)}, {index: 1, flags: agentFlags(t)}}
	launch(t, p.keeper, dir, p.engines)
	waitAll(t, p.engines)
	t.Run("overlap", p.messagesOverlap)
	t.Run("client gone", p.messagesClientGone)
	for _, e := range p.engines[1:] {
		e.proc.stop(patience)
	}
	alone := p.engines[0]
	p.engines = []*engine{
		{index: 1, backend: "nixl", mode: "prefill", flags: agentFlags(t)}, {index: 0, backend: "nixl", mode: "decode", flags: agentFlags(t)},
	}
	launch(t, p.keeper, dir, p.engines)
	waitAll(t, p.engines)
	t.Run("pairs", func(t *testing.T) { p.messagesPairs(t, alone) })
	keep(t, "messages.txt", p.notes.String())
	keep(t, "env-messages.txt", environment(t))
}

// messagesOverlap compares the router's expectation with the engines' reports.
func (p *proof) messagesOverlap(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	client := startAnthropic(t, p.keeper, p.dir, r.url)
	talkMessages(client, 40, 24) // which prove the conversion
	for _, e := range p.engines {
		e.flush(t)
	}
	m := measure("one at a time, messages", "kv", func() []outcome { return talkMessages(client, 41, messageTurns) })
	p.add(t, m)
	p.notes.WriteString(table([]measured{m}, p.engines))
	talk := newAgentTalk(42, 1)
	first, counted := talk.next(client), client.ask(document{"count": true, "body": newAgentTalk(42, 1).body()})
	if counted.Error != "" || counted.Prompt != first.prompt {
		t.Errorf("count_tokens is %d (%s), the prompt has %d tokens", counted.Prompt, counted.Error, first.prompt)
	}
	p.messagesErrors(t, client)
	r.waitIdle(t)
}

// messagesErrors checks that errors are those that the client knows.
func (p *proof) messagesErrors(t *testing.T, client *anthropicClient) {
	t.Helper()
	for name, c := range map[string]struct {
		change document
		status int
		kind   string
	}{
		"unknown model":   {document{"model": "nope"}, 404, "not_found_error"},
		"no tokens":       {document{"max_tokens": 0}, 400, "invalid_request_error"},
		"too many tokens": {document{"max_tokens": 1 << 20}, 400, "invalid_request_error"},
		"a bad block":     {document{"messages": []document{{"role": "user", "content": []document{{"type": "nope"}}}}}, 400, "invalid_request_error"},
		"redacted":        {document{"messages": []document{{"role": "assistant", "content": []document{{"type": "redacted_thinking", "data": "x"}}}}}, 400, "invalid_request_error"},
	} {
		for _, stream := range []bool{false, true} {
			body := newAgentTalk(43, 1).body()
			maps.Copy(body, c.change)
			if a := client.ask(document{"stream": stream, "body": body}); a.Status != c.status || a.Kind != c.kind {
				t.Errorf("%s, stream %v: status %d, type %q (%s); want %d, %q", name, stream, a.Status, a.Kind, a.Error, c.status, c.kind)
			}
		}
	}
}

// messagesClientGone leaves long answers early; the engines must stop.
func (p *proof) messagesClientGone(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		body := newAgentTalk(44, 1).body()
		body["max_tokens"], body["stream"] = 1200, stream
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/messages?beta=true", strings.NewReader(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		done := make(chan error, 1)
		go func() {
			answer, err := http.DefaultClient.Do(request)
			if err == nil {
				_, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			done <- err
		}()
		working := func() (n int) {
			for _, e := range p.engines {
				n += e.running(t)
			}
			return n
		}
		await := func(what string, want int) time.Duration {
			began := time.Now()
			for working() != want {
				select {
				case err := <-done:
					if want > 0 {
						t.Fatalf("stream %v: the answer ended: %v", stream, err)
					}
				case <-time.After(20 * time.Millisecond):
				}
				if time.Since(began) > patience {
					t.Fatalf("stream %v: %s after %v", stream, what, patience)
				}
			}
			return time.Since(began)
		}
		await("no engine works", 1)
		leave()
		p.note(t, "messages, stream %v: the engine is idle %.2f s after its client left", stream, await("the engine still works", 0).Seconds())
	}
	r.waitIdle(t)
}

// messagesPairs asks a pair and an engine alone the same things.
func (p *proof) messagesPairs(t *testing.T, alone *engine) {
	t.Helper()
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	pair, oracle := startAnthropic(t, p.keeper, p.dir, r.url), startAnthropic(t, p.keeper, p.dir, alone.url)
	talkMessages(pair, 49, 24) // which prove the conversion
	alone.flush(t)
	for _, e := range p.engines {
		e.flush(t)
	}
	equal, asked := 0, 0
	m := measure("messages, pairs", "kv", func() (all []outcome) {
		for n := range messagePairTurns / messageTalkTurns {
			talk := newAgentTalk(50, n)
			for range messageTalkTurns {
				body := talk.body()
				stream := talk.turn%2 == 1
				want := oracle.ask(document{"stream": stream, "body": body})
				began := time.Now()
				got := pair.ask(document{"stream": stream, "body": body})
				o := got.outcome(stream)
				o.at, o.took = began, time.Since(began)
				all = append(all, o)
				if o.err != nil || want.Error != "" {
					t.Errorf("pair: %v; alone: %s", o.err, want.Error)
					return all
				}
				if asked++; reflect.DeepEqual(got.Content, want.Content) && got.Prompt == want.Prompt {
					equal++
				}
				if got.Worker != p.engines[1].url || got.Prefill != p.engines[0].url {
					t.Errorf("answered by %q and %q", got.Prefill, got.Worker)
				}
				talk.next(oracle)
				<-time.After(pause)
			}
		}
		return all
	})
	p.note(t, "messages, pairs: %d of %d answers are those of an engine alone", equal, asked)
	p.notes.WriteString(table([]measured{m}, p.engines))
	t.Logf("\n%s\n%s", table([]measured{m}, p.engines), mismatches(&m, 10))
	// Two engines that compute together may round differently; the first tokens tell.
	if equal*10 < asked*9 {
		t.Errorf("%d of %d answers of the pair are those of an engine alone", equal, asked)
	}
	if v := m.overlap(); v.share() < equalAtLeast {
		t.Errorf("pairs: the overlap is as expected on %.3f", v.share())
	}
	r.waitIdle(t)
}
