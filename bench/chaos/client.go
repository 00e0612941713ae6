package chaos

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// fate is the end of a request.
type fate int

const (
	answered fate = iota // whole, and its own
	told                 // of an error
	cut                  // before or behind the first byte of an answer
	refused              // the connection
	left                 // by its client
	fates
)

func (f fate) String() string { return [...]string{"answered", "told", "cut", "refused", "left"}[f] }

// ask is one request.
type ask struct {
	number int64
	router int
	path   string
	body   string
	stream bool
	form   form
	key    int // of keys
	leaves bool

	began  time.Time
	head   bool // the answer had begun
	status int
}

// form is the way in which a body is sent.
type form int

const (
	measured form = iota // with its length
	chunked
	zipped
	forms
)

var apis = []string{"/generate", "/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses"}

// draw makes a request: prompts share beginnings and end with their number.
func draw(rng *rand.Rand, number int64) *ask {
	a := &ask{number: number, router: rng.IntN(routers), path: apis[rng.IntN(len(apis))], stream: rng.IntN(2) == 0, leaves: rng.IntN(25) == 0}
	if rng.IntN(4) == 0 {
		a.form = form(rng.IntN(int(forms)))
	}
	topic := rng.IntN(8)
	text := strings.Repeat(fmt.Sprintf("shared words of topic %d ", topic), 10+10*topic) + fmt.Sprintf("request #%d", number)
	switch n := rng.IntN(30); {
	case n == 0:
		a.key = wrongKey
	case n < 4:
		a.key = rotatingKey
	case n < 6:
		a.key = limitedKey
	}
	a.fill(text, 3+rng.IntN(24)) // of fewer, /v1/responses has none, but one from a pair
	return a
}

// fill makes the body of a prompt, for so many tokens of an answer.
func (a *ask) fill(text string, tokens int) {
	switch a.path {
	case "/generate":
		a.body = fmt.Sprintf(`{"text":%q,"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}`, text, tokens)
	case "/v1/completions":
		a.body = fmt.Sprintf(`{"model":"simulated","prompt":%q,"max_tokens":%d,"ignore_eos":true`, text, tokens)
	case "/v1/responses":
		a.body = fmt.Sprintf(`{"model":"simulated","input":%q,"max_output_tokens":%d,"store":false`, text, tokens)
	case "/v1/messages":
		a.body = fmt.Sprintf(`{"model":"simulated","messages":[{"role":"user","content":%q}],"max_tokens":%d`, text, tokens)
	default:
		a.body = fmt.Sprintf(`{"model":"simulated","messages":[{"role":"user","content":%q}],"max_tokens":%d,"ignore_eos":true`, text, tokens)
	}
}

func (a *ask) text(stream bool) string {
	if stream {
		return a.body + `,"stream":true}`
	}
	return a.body + "}"
}

// toldError is an error that an answer tells.
type toldError string

func (e toldError) Error() string { return string(e) }

var (
	errTruncated = errors.New("the answer ends early, and its HTTP says that it is whole")
	errWrong     = errors.New("another answer than its own")
)

// request makes the request.
func (a *ask) request(ctx context.Context, base, key string, stream bool) (*http.Request, error) {
	text := a.text(stream)
	body := io.Reader(strings.NewReader(text))
	switch a.form {
	case measured:
	case chunked:
		body = io.MultiReader(body)
	case zipped:
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text) // into memory
		_ = z.Close()
		body = &b
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+a.path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot make a request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	if a.form == zipped {
		req.Header.Set("Content-Encoding", "gzip")
	}
	return req, nil
}

// send sends a request and returns the text of its answer.
func (a *ask) send(ctx context.Context, client *http.Client, base, key string, stream bool) (string, error) {
	req, err := a.request(ctx, base, key, stream)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err //nolint:wrapcheck // classified by its cause
	}
	defer resp.Body.Close()
	return a.read(resp, stream)
}

// read returns the text of an answer.
func (a *ask) read(resp *http.Response, stream bool) (string, error) {
	a.head, a.status = true, resp.StatusCode
	body, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != http.StatusOK: // that the rest is missing does not matter
		return "", toldError(fmt.Sprintf("%d %.120s", resp.StatusCode, body))
	case err != nil:
		return "", err //nolint:wrapcheck // classified by its cause
	case !stream:
		return spoken([][]byte{body})
	}
	var events [][]byte
	last := ""
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
			last = string(data)
			events = append(events, bytes.Clone(data))
		}
	}
	text, err := spoken(events)
	if err == nil && last != "[DONE]" && !strings.Contains(last, `"message_stop"`) && !strings.Contains(last, `{"type":"response.completed"`) && !strings.Contains(last, `{"type":"response.incomplete"`) {
		err = fmt.Errorf("%w: the last event is %.80q", errTruncated, last)
	}
	return text, err
}

// said has the fields of all answers and events that the client reads.
type said struct {
	Error   json.RawMessage `json:"error"`
	Object  string          `json:"object"`
	Type    string          `json:"type"`
	Message json.RawMessage `json:"message"`
	Text    *string         `json:"text"` // of /generate, where each event has all of it
	Meta    struct {
		Finish struct {
			Type   string `json:"type"`
			Status int    `json:"status_code"`
		} `json:"finish_reason"`
	} `json:"meta_info"`
	Choices []struct {
		Text    string
		Message struct{ Content string }
		Delta   struct{ Content string }
	} `json:"choices"`
	Content []struct{ Text string } `json:"content"` // of messages
	Output  []struct {
		Content []struct{ Text string }
	} `json:"output"` // of responses
	Delta json.RawMessage `json:"delta"`
}

// spoken returns the text of an answer's events, or of its one document.
func spoken(events [][]byte) (string, error) {
	var b strings.Builder
	for _, e := range events {
		if string(e) == "[DONE]" {
			continue
		}
		var s said
		if err := json.Unmarshal(e, &s); err != nil {
			return "", fmt.Errorf("%w: %w in %.80q", errTruncated, err, e)
		}
		if len(s.Error) > 0 && string(s.Error) != "null" || s.Object == "error" || s.Type == "error" || s.Type == "response.failed" || s.Meta.Finish.Status != 0 {
			return "", toldError(fmt.Sprintf("event %.120s", e))
		}
		if s.Text != nil && s.Type == "" {
			b.Reset()
			b.WriteString(*s.Text)
		}
		for _, c := range s.Choices {
			b.WriteString(c.Text + c.Message.Content + c.Delta.Content)
		}
		for _, c := range s.Content {
			b.WriteString(c.Text)
		}
		for _, o := range s.Output {
			for _, c := range o.Content {
				b.WriteString(c.Text)
			}
		}
		switch s.Type {
		case "content_block_delta":
			var d struct{ Text string }
			_ = json.Unmarshal(s.Delta, &d)
			b.WriteString(d.Text)
		case "response.output_text.delta":
			var d string
			_ = json.Unmarshal(s.Delta, &d)
			b.WriteString(d)
		}
	}
	return b.String(), nil
}

// fateOf sorts an error.
func (a *ask) fateOf(err error) fate {
	var t toldError
	switch {
	case err == nil:
		return answered
	case errors.As(err, &t):
		return told
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case a.leaves && errors.Is(err, context.DeadlineExceeded):
		return left
	}
	return cut
}

// garbage are requests that no worker may see, by the number that they carry.
func garbage(number int64) []string {
	body := fmt.Sprintf(`{"text":"garbage #%d"}`, number)
	head := "POST /generate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + keyText(steadyKey) + "\r\nContent-Type: application/json\r\n"
	return []string{
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + body,
		"GET /\r\n\r\n" + body,
		"POST /generate HTTP/1.1\r\nHost: x\r\n",
		head + "Content-Length: 1000000\r\n\r\n" + body,
		head + "Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n" + body,
		head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + body + "\r\n0\r\n\r\n",
		head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: 0\r\n\r\n%s", len(body), body),
		head + fmt.Sprintf("Content-Length: +%d\r\n\r\n%s", len(body), body),
		head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), strings.Repeat("{", len(body))),
		head + "X: " + strings.Repeat("a", 1<<17) + "\r\nContent-Length: 2\r\n\r\n{}",
		"POST /generate HTTP/2.0\r\nHost: x\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
	}
}

// sendRaw sends bytes and returns the status of the answer, 0 if there is none.
func sendRaw(ctx context.Context, dial func(context.Context) (net.Conn, error), text string) int {
	conn, err := dial(ctx)
	if err != nil {
		return 0
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	// The other side may answer before it has read all.
	go func() { _, _ = io.WriteString(conn, text) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
