package mock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/mock"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/zmq"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const patience = 3 * time.Minute

// start runs workers until the test ends and returns their URLs.
func start(t *testing.T, cfg mock.Config) (*mock.Workers, []string) {
	t.Helper()
	cfg.Listen, cfg.Model = "127.0.0.1:0", "tiny"
	if cfg.PageSize == 0 {
		cfg.Workers, cfg.PageSize, cfg.CachePages = 1, 4, 1000
	}
	if cfg.Workers == 1 { // whose connections are counted: strangers may come to a port that another test's worker had
		cfg.Listen = natstest.Address(t)
	}
	w, err := mock.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		stop()
		require.NoError(t, <-done)
	})
	var urls []string
	for _, a := range w.Addrs() {
		urls = append(urls, "http://"+a)
	}
	return w, urls
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(b)
}

// apis are the endpoints with a prompt of 14 tokens: ten that the second asks for again, by our own rule of four bytes a token.
var apis = []struct {
	api        openai.API
	path, body string
}{
	{openai.APIGenerate, "/generate", `{"input_ids":[1,2,3,4,5,6,7,8,9,10,11,12,13,14],"sampling_params":{"max_new_tokens":3},"stream":%t}`},
	{openai.APIGenerate, "/generate", `{"stream": %t, "text":"` + strings.Repeat("text", 14) + `", "sampling_params" : {"max_new_tokens": 3}}`},
	{openai.APICompletions, "/v1/completions", `{"prompt":"` + strings.Repeat("comp", 14) + `","max_tokens":3,"stream":%t,"stream_options":{"include_usage":true}}`},
	{openai.APIChat, "/v1/chat/completions", `{"messages":[{"role":"user","content":"aaaa bbbb \"}] cccccdddddddd"}],"max_tokens":3,"stream":%t,"stream_options":{"include_usage":true}}`},
}

// TestAnswers reads answers as the router does.
func TestAnswers(t *testing.T) {
	for _, a := range apis {
		for _, stream := range []bool{false, true} {
			_, urls := start(t, mock.Config{})
			for i, cached := range []int{0, 12} { // whole pages but the last token
				status, answer := post(t, urls[0]+a.path, fmt.Sprintf(a.body, stream))
				require.Equal(t, http.StatusOK, status)
				var scan openai.UsageScanner
				scan.Reset(a.api, stream)
				_, _ = scan.Write([]byte(answer))
				u := scan.Usage()
				require.True(t, u.HasPrompt && u.HasCached, "%s", answer)
				require.Equal(t, openai.Usage{PromptTokens: 14, CachedTokens: cached, CompletionTokens: 3, HasPrompt: true, HasCached: true}, u,
					"%s stream=%t request %d", a.path, stream, i)
				if stream {
					require.GreaterOrEqual(t, strings.Count(answer, "data: {"), 3)
					require.True(t, strings.HasSuffix(answer, "\n\ndata: [DONE]\n\n"), answer)
				} else {
					require.True(t, json.Valid([]byte(answer)), answer)
				}
				require.Equal(t, 3, strings.Count(answer, mock.Word), answer)
			}
		}
	}
}

func TestControl(t *testing.T) {
	w, urls := start(t, mock.Config{Workers: 2, PageSize: 16, CachePages: 100, Events: true, Tokenize: true})
	for _, path := range []string{"/health", "/ready", "/health_generate"} {
		status, _ := get(t, urls[1]+path)
		require.Equal(t, http.StatusOK, status, path)
	}
	for _, path := range []string{"/server_info", "/get_server_info", "/model_info", "/get_model_info", "/v1/models", "/v1/loads", "/get_load"} {
		status, text := get(t, urls[0]+path)
		require.Equal(t, http.StatusOK, status, path)
		require.True(t, json.Valid([]byte(text)), "%s: %s", path, text)
	}
	status, _ := get(t, urls[0]+"/nowhere")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = post(t, urls[0]+"/generate", `{"input_ids":`)
	require.Equal(t, http.StatusBadRequest, status)
	status, text := get(t, urls[0]+"/bench/pace?gap=soon")
	require.Equal(t, http.StatusBadRequest, status, text)
	status, text = post(t, urls[0]+"/v1/tokenize", `{"prompt":"abcdabcdab"}`)
	require.Equal(t, http.StatusOK, status)
	var got struct {
		Tokens []uint32
		Count  int
	}
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	require.Len(t, got.Tokens, 3)
	require.Equal(t, 3, got.Count)
	require.Equal(t, got.Tokens[0], got.Tokens[1])
	s, ok := w.Stats(t.Context())
	require.True(t, ok)
	require.EqualValues(t, 1, s.Bad)
	require.EqualValues(t, 1, s.Requests)
}

// TestTokenizeEqualsPrefill has what /v1/tokenize says be what the prompt is: sent as ids, it is cached by then.
func TestTokenizeEqualsPrefill(t *testing.T) {
	_, urls := start(t, mock.Config{Workers: 1, PageSize: 4, CachePages: 100, Tokenize: true})
	messages := `"messages":[{"role":"user","content":"the same words for both"}]`
	status, text := post(t, urls[0]+"/v1/tokenize", "{"+messages+"}")
	require.Equal(t, http.StatusOK, status)
	var got struct{ Tokens []uint32 }
	require.NoError(t, json.Unmarshal([]byte(text), &got))
	post(t, urls[0]+"/v1/chat/completions", "{"+messages+`,"max_tokens":1}`)
	list, err := json.Marshal(got.Tokens)
	require.NoError(t, err)
	_, answer := post(t, urls[0]+"/generate", fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":1}}`, list))
	require.Contains(t, answer, fmt.Sprintf(`"cached_tokens":%d`, (len(got.Tokens)-1)/4*4))
}

// fourRequests are pipelined, the last ends the connection.
func fourRequests() string {
	body := `{"input_ids":[1,2,3],"sampling_params":{"max_new_tokens":1}}`
	length := fmt.Sprintf("POST /generate HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	chunks := "POST /generate HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + body[:5] + "\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body)-5, body[5:])
	return length + chunks + length + strings.Replace(length, "\r\n", "\r\nConnection: close\r\n", 1)
}

// readAnswers wants as many answers and the connection's end.
func readAnswers(t *testing.T, c net.Conn, n int) {
	t.Helper()
	r := bufio.NewReader(c)
	for range n {
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
	}
	_, err := r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

// TestConnections cuts pipelined requests as a router might: byte by byte, and in two at every fifth byte.
func TestConnections(t *testing.T) {
	w, urls := start(t, mock.Config{})
	all := fourRequests()
	send := func(pieces ...string) {
		c, err := net.Dial("tcp", strings.TrimPrefix(urls[0], "http://"))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		for _, p := range pieces {
			_, err = io.WriteString(c, p)
			require.NoError(t, err)
			time.Sleep(100 * time.Microsecond) // so that most pieces come alone; nothing depends on it
		}
		readAnswers(t, c, 4)
	}
	send(strings.Split(all, "")...)
	connections := 1
	for cut := 1; cut < len(all); cut += 5 {
		send(all[:cut], all[cut:])
		connections++
	}
	s, _ := w.Stats(t.Context())
	require.EqualValues(t, 4*connections, s.Requests)
	require.Zero(t, s.Bad)
	require.Zero(t, s.Connections)
}

// TestEventsAreTheCache builds each worker's cache from its events alone: a prompt's cached tokens are what the events said before.
func TestEventsAreTheCache(t *testing.T) {
	_, urls := start(t, mock.Config{Workers: 1, PageSize: 4, CachePages: 12, Events: true})
	_, text := get(t, urls[0]+"/server_info")
	var info struct {
		KV struct {
			Live   int `json:"endpoint_port_base"`
			Replay int `json:"replay_endpoint_port_base"`
			Topic  string
			Block  int `json:"block_size"`
		} `json:"kv_events"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &info))
	require.Equal(t, 4, info.KV.Block)
	sizes := []int{9, 30, 9, 17, 60, 9, 41, 30}
	var answers []string
	for i, n := range sizes {
		ids := make([]string, n)
		for k := range ids {
			ids[k] = strconv.Itoa(1 + k + 1000*(i%3)*(k/12))
		}
		_, a := post(t, urls[0]+"/generate", `{"input_ids":[`+strings.Join(ids, ",")+`],"sampling_params":{"max_new_tokens":2}}`)
		answers = append(answers, a)
	}
	post(t, urls[0]+"/flush_cache", "")

	pages := map[uint64][]uint32{} // by name
	stored, removed, cleared := 0, 0, 0
	var last uint64
	var mu sync.Mutex
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := zmq.Replay(ctx, fmt.Sprintf("tcp://127.0.0.1:%d", info.KV.Replay), 0, func(m zmq.Message) error {
		mu.Lock()
		defer mu.Unlock()
		var b kvevent.Batch
		if err := b.Decode(m.Payload); err != nil {
			return err
		}
		require.Equal(t, info.KV.Topic, string(m.Topic))
		last = m.Seq
		for _, e := range b.Events {
			switch e.Kind {
			case kvevent.Stored:
				stored += len(e.Hashes)
				require.Len(t, e.Tokens, len(e.Hashes)*4)
				if e.HasParent {
					require.Contains(t, pages, e.Parent, "a parent is there")
				}
				for i, h := range e.Hashes {
					require.NotContains(t, pages, h)
					pages[h] = bytesOf(e.Tokens[i*4 : i*4+4])
				}
			case kvevent.Removed:
				removed += len(e.Hashes)
				for _, h := range e.Hashes {
					require.Contains(t, pages, h)
					delete(pages, h)
				}
			case kvevent.Cleared:
				cleared++
				clear(pages)
			}
			require.LessOrEqual(t, len(pages), 12)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, stored)
	require.NotZero(t, removed, "12 pages do not hold all of it")
	require.Equal(t, 1, cleared)
	require.Positive(t, last)
	require.Contains(t, answers[2], `"cached_tokens":8`, "both pages of the first prompt, less the last token")
}

func bytesOf(ids []uint32) []uint32 { return append([]uint32(nil), ids...) }

func TestConfigRefuses(t *testing.T) {
	for _, cfg := range []mock.Config{
		{Listen: "127.0.0.1:0", PageSize: 1, CachePages: 1},
		{Listen: "127.0.0.1:0", Workers: 1, CachePages: 1},
		{Listen: "127.0.0.1", Workers: 1, PageSize: 1, CachePages: 1},
	} {
		_, err := mock.New(cfg)
		require.ErrorIs(t, err, mock.ErrConfig)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	_, err = mock.New(mock.Config{Listen: ln.Addr().String(), Workers: 1, PageSize: 1, CachePages: 1, Events: true})
	require.Error(t, err, "the port is taken")
	require.False(t, bytes.Contains([]byte(err.Error()), []byte("%!")))
}
