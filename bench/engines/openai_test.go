//go:build engines

package engines_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"testing"
	"time"
)

// openaiClient drives openai_client.py: the client that users have, with the pace that it has.
type openaiClient struct {
	in  io.Writer
	out *bufio.Scanner
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type openaiRequest struct {
	API       string    `json:"api"` // chat or completions
	Stream    bool      `json:"stream"`
	MaxTokens int       `json:"max_tokens"`
	Messages  []message `json:"messages,omitempty"`
	Prompt    string    `json:"prompt,omitempty"`
}

func startOpenAI(t *testing.T, k *keeper, dir, base string) *openaiClient {
	t.Helper()
	cmd := exec.Command(python(t), "openai_client.py", base+"/v1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Not StdoutPipe: Wait, which spawn calls at once, would close it under the reader.
	out, answers := io.Pipe()
	cmd.Stdout = answers
	p := spawn(t, k, dir, "openai", cmd)
	go func() {
		<-p.dead
		answers.Close()
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &openaiClient{in: in, out: lines}
}

func (c *openaiClient) do(r openaiRequest) outcome {
	o := outcome{api: r.API}
	if r.Stream {
		o.api += ", stream"
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = c.in.Write(append(line, '\n'))
	}
	if err != nil {
		o.err = err
		return o
	}
	if !c.out.Scan() {
		o.err = errors.Join(errors.New("openai_client.py ended"), c.out.Err())
		return o
	}
	var answer struct {
		Text    string  `json:"text"`
		Prompt  int     `json:"prompt_tokens"`
		Cached  int     `json:"cached_tokens"`
		Worker  string  `json:"worker"`
		Overlap string  `json:"overlap"`
		TTFT    float64 `json:"ttft"`
		Error   string  `json:"error"`
	}
	if err := json.Unmarshal(c.out.Bytes(), &answer); err != nil {
		o.err = err
		return o
	}
	if answer.Error != "" {
		o.err = errors.New(answer.Error)
		return o
	}
	o.text, o.prompt, o.cached = answer.Text, answer.Prompt, answer.Cached
	o.worker, o.header = answer.Worker, answer.Overlap
	o.ttft = time.Duration(answer.TTFT * float64(time.Second))
	return o
}
