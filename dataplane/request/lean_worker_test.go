package request_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

// leanWorker answers without allocations, so that only the router's are counted. A decode
// worker answers once the prefill leg has ended, as an engine does: a canceled leg costs its
// connection.
func leanWorker(t *testing.T, mode, reply string, over *atomic.Pointer[worker.Rank]) *fakeWorker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answer := func(body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	about := answer(requesttest.HalfInfo(mode, 1, requesttest.Port(l.Addr().String())))
	streamed := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat(chunkOf("data: {\"choices\":[{\"text\":\"\",\"delta\":{}}]}\n\n"), 64) + chunkOf("data: [DONE]\n\n") + "0\r\n\r\n")
	tokenized := answer(`{"tokens":[` + fresh + strings.Repeat(",1234", 2048) + `],"count":2049}`)
	models, empty, generated := answer(`{"data":[{"id":"tiny"}]}`), answer("{}"), answer(reply)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				tokenized := bytes.Clone(tokenized)
				at := bytes.Index(tokenized, []byte(fresh))
				number := tokenized[at:][:len(fresh)]
				for buf := make([]byte, 64<<10); ; {
					request := readRequest(c, buf)
					if len(request) == 0 {
						return
					}
					out := empty
					switch {
					case bytes.HasPrefix(request, []byte("POST /v1/chat/completions")) && bytes.Contains(request, []byte(`"stream":true`)):
						out = streamed
					case bytes.HasPrefix(request, []byte("POST /generate")), bytes.HasPrefix(request, []byte("POST /v1/chat/completions")):
						for over != nil && over.Load().Load.InFlight() > 0 {
							time.Sleep(10 * time.Microsecond)
						}
						out = generated
					case bytes.HasPrefix(request, []byte("POST /v1/tokenize")):
						copy(number, request[bytes.Index(request, contentKey)+len(contentKey):])
						out = tokenized
					case bytes.HasPrefix(request, []byte("GET /server_info")):
						out = about
					case bytes.HasPrefix(request, []byte("GET /v1/models")):
						out = models
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return &fakeWorker{URL: "http://" + l.Addr().String()}
}

func chunkOf(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// readRequest reads a request with its body into buf; it is empty where the connection has ended.
func readRequest(c net.Conn, buf []byte) []byte {
	for n := 0; ; {
		m, err := c.Read(buf[n:])
		if err != nil {
			return nil
		}
		n += m
		head, body, ok := bytes.Cut(buf[:n], []byte("\r\n\r\n"))
		if !ok {
			continue
		}
		length := 0
		if _, digits, ok := bytes.Cut(head, []byte("Content-Length: ")); ok {
			for _, digit := range digits {
				if digit < '0' || digit > '9' {
					break
				}
				length = 10*length + int(digit-'0')
			}
		}
		if len(body) >= length {
			return buf[:n]
		}
	}
}

var contentKey = []byte(`"content":"`)
