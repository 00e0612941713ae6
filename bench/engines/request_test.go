//go:build engines

package engines_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// outcome is what one request showed: what the router expected, and what the engine reported.
type outcome struct {
	api    string
	worker string // X-Warmpath-Worker
	helper string // X-Warmpath-Prefill: of a pair, the worker that computed the prompt
	header string // X-Warmpath-Overlap, as it came
	prompt int    // prompt tokens
	cached int    // the engine's cached_tokens
	ttft   time.Duration
	ids    []int     // generated ids, of /generate only
	text   string    // generated text, of the openai client and of chats only
	asked  *chatBody // of chats that a test posts itself
	began  bool      // bytes of the answer had come when err happened
	told   bool      // err is an error that the stream itself ended with, in the way of its API
	at     time.Time
	took   time.Duration
	err    error
}

// expected turns the overlap header into the cached_tokens that it predicts. The engine always computes at least the last
// token of a prompt, so a prompt whose every page is cached counts one page less when it ends on a page's end. known is false
// where the router expected nothing because it did not look: policies other than kv do not tokenize a text.
func (o *outcome) expected() (tokens int, known bool) {
	matched, total, _ := strings.Cut(o.header, "/")
	blocks, err := strconv.Atoi(matched)
	of, err2 := strconv.Atoi(total)
	if err != nil || err2 != nil || of == 0 && o.prompt >= pageSize {
		return 0, false
	}
	return min(blocks*pageSize, (o.prompt-1)/pageSize*pageSize), true
}

// generation is the body of /generate, and of its answer or of one of its events.
type generation struct {
	InputIDs []int    `json:"input_ids"`
	Sampling sampling `json:"sampling_params"`
	Stream   bool     `json:"stream"`
}

type sampling struct {
	MaxNewTokens int     `json:"max_new_tokens"`
	IgnoreEOS    bool    `json:"ignore_eos"`
	Temperature  float64 `json:"temperature"`
}

type generated struct {
	OutputIDs []int `json:"output_ids"`
	Meta      struct {
		PromptTokens int `json:"prompt_tokens"`
		CachedTokens int `json:"cached_tokens"`
	} `json:"meta_info"`
	Error json.RawMessage `json:"error"`
}

// open sends a /generate request and returns the answer when its header is there.
func open(ctx context.Context, base string, ids []int, maxNew int, stream bool) (*http.Response, error) {
	body, err := json.Marshal(generation{ids, sampling{MaxNewTokens: maxNew, IgnoreEOS: true}, stream})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/generate", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(request)
}

// generate sends one /generate request and reads the whole answer.
func generate(ctx context.Context, base string, ids []int, maxNew int, stream bool) (o outcome) {
	o.api = "generate"
	if stream {
		o.api = "generate, stream"
	}
	began := time.Now()
	o.at = began
	defer func() { o.took = time.Since(began) }()
	answer, err := open(ctx, base, ids, maxNew, stream)
	if err != nil {
		o.err = err
		return o
	}
	defer answer.Body.Close()
	o.worker, o.header = answer.Header.Get("X-Warmpath-Worker"), answer.Header.Get("X-Warmpath-Overlap")
	o.helper = answer.Header.Get("X-Warmpath-Prefill")
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		o.err = fmt.Errorf("status %d: %s", answer.StatusCode, bytes.TrimSpace(text))
		return o
	}
	last, err := o.read(answer.Body, stream, began)
	if err == nil {
		err = o.take(last)
	}
	o.err = err
	return o
}

// read returns the last JSON document of the answer: of a stream, that is its last event before [DONE].
func (o *outcome) read(body io.Reader, stream bool, began time.Time) ([]byte, error) {
	if !stream {
		text, err := io.ReadAll(body)
		o.began, o.ttft = len(text) > 0, time.Since(began)
		return text, err
	}
	var last []byte
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		if string(data) == "[DONE]" {
			return last, nil
		}
		if !o.began {
			o.began, o.ttft = true, time.Since(began)
		}
		last = append(last[:0], data...)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF)
}

func (o *outcome) take(document []byte) error {
	var g generated
	if err := json.Unmarshal(document, &g); err != nil {
		return fmt.Errorf("cannot read the answer %q: %w", document, err)
	}
	if len(g.Error) > 0 {
		o.told = true
		return fmt.Errorf("the stream carries an error: %s", g.Error)
	}
	o.prompt, o.cached, o.ids = g.Meta.PromptTokens, g.Meta.CachedTokens, g.OutputIDs
	return nil
}
