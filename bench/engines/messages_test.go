//go:build engines

package engines_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

const (
	messageTurns     = 200
	messageTalkTurns = 6
	messagePairTurns = 36
)

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

// agentTalks opens conversations.
func agentTalks(seed uint64) func(int) talk {
	return func(nth int) talk { return newAgentTalk(seed, nth) }
}

func (a *agentTalk) turns() int { return a.turn }

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
func (a *agentTalk) next(c *apiClient) outcome {
	stream := a.turn%2 == 1
	answer := c.ask(document{"stream": stream, "body": a.body()})
	if answer.Error != "" {
		return answer.outcome("messages", stream)
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
		return answer.outcome("messages", stream)
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
	return answer.outcome("messages", stream)
}

// TestRealMessages holds conversations of agents over /v1/messages, with the anthropic client.
func TestRealMessages(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	p.engines = []*engine{{index: 0, flags: toolFlags(t, "agent.jinja")}, {index: 1, flags: toolFlags(t, "agent.jinja")}}
	launch(t, p.keeper, dir, p.engines)
	waitAll(t, p.engines)
	t.Run("overlap", p.messagesOverlap)
	t.Run("client gone", p.messagesClientGone)
	for _, e := range p.engines[1:] {
		e.proc.stop(patience)
	}
	alone := p.engines[0]
	p.engines = []*engine{
		{index: 1, backend: "nixl", mode: "prefill", flags: toolFlags(t, "agent.jinja")}, {index: 0, backend: "nixl", mode: "decode", flags: toolFlags(t, "agent.jinja")},
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
	client := startClient(t, p.keeper, p.dir, "anthropic_client.py", r.url)
	holdTalks(client, 24, messageTalkTurns, agentTalks(40)) // which prove the conversion
	for _, e := range p.engines {
		e.flush(t)
	}
	m := measure("one at a time, messages", "kv", func() []outcome { return holdTalks(client, messageTurns, messageTalkTurns, agentTalks(41)) })
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
func (p *proof) messagesErrors(t *testing.T, client *apiClient) {
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

// messagesClientGone leaves long answers early.
func (p *proof) messagesClientGone(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	for _, stream := range []bool{true, false} {
		body := newAgentTalk(44, 1).body()
		body["max_tokens"], body["stream"] = 1200, stream
		p.leaveEarly(t, r, "/v1/messages?beta=true", body)
	}
	r.waitIdle(t)
}

// messagesPairs asks a pair and an engine alone the same things.
func (p *proof) messagesPairs(t *testing.T, alone *engine) {
	t.Helper()
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	pair, oracle := startClient(t, p.keeper, p.dir, "anthropic_client.py", r.url), startClient(t, p.keeper, p.dir, "anthropic_client.py", alone.url)
	holdTalks(pair, 24, messageTalkTurns, agentTalks(49)) // which prove the conversion
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
				o := got.outcome("messages", stream)
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
