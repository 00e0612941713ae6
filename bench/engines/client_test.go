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
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// apiClient drives a Python program with an API's own client: a request a line, an answer a line.
type apiClient struct {
	program string
	in      io.Writer
	out     *bufio.Scanner
}

func startClient(t *testing.T, k *keeper, dir, program, base string) *apiClient {
	t.Helper()
	cmd := exec.Command(python(t), program, base)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, answers := io.Pipe()
	cmd.Stdout = answers
	name, _, _ := strings.Cut(program, "_")
	p := spawn(t, k, dir, fmt.Sprintf("%s-%d", name, time.Now().UnixMilli()), cmd)
	go func() {
		<-p.dead
		answers.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &apiClient{program: program, in: in, out: lines}
}

// apiAnswer is a line of such a program.
type apiAnswer struct {
	ID       string     `json:"id"`
	Response string     `json:"response_status"`
	Output   []document `json:"output"`  // of /v1/responses
	Content  []document `json:"content"` // of /v1/messages
	Prompt   int        `json:"prompt_tokens"`
	Cached   int        `json:"cached_tokens"`
	Worker   string     `json:"worker"`
	Prefill  string     `json:"prefill"`
	Overlap  string     `json:"overlap"`
	TTFT     float64    `json:"ttft"`
	Error    string     `json:"error"`
	Status   int        `json:"status"`
	Kind     string     `json:"kind"`
}

func (c *apiClient) ask(request document) (a apiAnswer) {
	line, err := json.Marshal(request)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err == nil && !c.out.Scan() {
		err = errors.Join(errors.New(c.program+" ended"), c.out.Err())
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
func (a *apiAnswer) outcome(api string, stream bool) outcome {
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

// talk is a conversation.
type talk interface {
	next(c *apiClient) outcome // sends the next turn
	turns() int                // that were answered
}

// openTalks is the number of conversations that go on at a time.
const openTalks = 4

// holdTalks holds so many turns, one after the other, in conversations of so many.
func holdTalks(c *apiClient, turns, each int, open func(nth int) talk) (all []outcome) {
	talks := make([]talk, openTalks)
	for n, opened := 0, 0; n < turns; n++ {
		i := n % openTalks
		if talks[i] == nil || talks[i].turns() >= each {
			talks[i] = open(opened)
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

// toolFlags give the tiny model a template with tools and thinking.
func toolFlags(t *testing.T, template string) []string {
	t.Helper()
	template, err := filepath.Abs(filepath.Join("testdata", template))
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--chat-template", template, "--reasoning-parser", "qwen3", "--tool-call-parser", "qwen"}
}

// leaveEarly leaves a long answer early; the engines must stop.
func (p *proof) leaveEarly(t *testing.T, r *router, path string, body document) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(raw))
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
	await := func(want int) time.Duration {
		for began := time.Now(); ; {
			n := 0
			for _, e := range p.engines {
				n += e.running(t)
			}
			switch took := time.Since(began); {
			case n == want:
				return took
			case took > patience:
				t.Fatalf("%s, stream %v: %d requests run instead of %d", path, body["stream"], n, want)
			}
			select {
			case err := <-done:
				if want > 0 {
					t.Fatalf("%s, stream %v: the answer ended: %v", path, body["stream"], err)
				}
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	await(1)
	leave()
	p.note(t, "%s, stream %v: the engine is idle %.2f s after its client left", path, body["stream"], await(0).Seconds())
}
