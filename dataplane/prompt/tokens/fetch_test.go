package tokens

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

var errUnknown = errors.New("unknown worker")

// newFetcher asks a worker that answers with the body it gets, or not at all.
func newFetcher(t *testing.T) (f *WorkerFetcher, target string) {
	t.Helper()
	left := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.HasPrefix(string(body), "hang") {
			select {
			case <-r.Context().Done():
			case <-left:
			}
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(left) })
	f = NewWorkerFetcher(upstream.NewTransport(upstream.Config{DialTimeout: time.Minute}), func(url string) (upstream.Target, error) {
		if url != server.URL {
			return upstream.Target{}, errUnknown
		}
		return upstream.Target{Addr: server.Listener.Addr().String()}, nil
	})
	t.Cleanup(func() { _ = f.transport.Close() })
	return f, server.URL
}

// one is a body of one part.
func one(text string) [][]byte { return [][]byte{[]byte(text)} }

func fresh(n int) []byte { return make([]byte, n) }

const soon, far = 50 * time.Millisecond, time.Hour

func TestFetchEnds(t *testing.T) {
	f, target := newFetcher(t)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(soon, cancel)
	_, _, err := f.Fetch(ctx, time.Now().Add(far), target, "/v1/tokenize", one("hang"), fresh)
	require.Error(t, err, "the context ended")
	_, _, err = f.Fetch(context.Background(), time.Now().Add(soon), target, "/v1/tokenize", one("hang"), fresh)
	require.Error(t, err, "the deadline passed")
	_, _, err = f.Fetch(context.Background(), time.Now().Add(-time.Second), target, "/v1/tokenize", one("hang"), fresh)
	require.Error(t, err, "the deadline had passed before")
	_, _, err = f.Fetch(context.Background(), time.Now().Add(far), "http://127.0.0.1:1", "/v1/tokenize", nil, fresh)
	require.ErrorIs(t, err, errUnknown)
}

// TestFetchAgain has fetches that were given up among others: none may end another one that has its
// memory next.
func TestFetchAgain(t *testing.T) {
	f, target := newFetcher(t)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			into := make([]byte, 64)
			room := func(n int) []byte { return into[:n] }
			for i := range 60 {
				if g < 4 {
					_, _, err := f.Fetch(context.Background(), time.Now().Add(time.Duration(i)*50*time.Microsecond), target, "/", one("hang"), room)
					assert.Error(t, err)
					continue
				}
				text := strings.Repeat(string(rune('a'+i%26)), 1+g)
				status, answer, err := f.Fetch(context.Background(), time.Now().Add(far), target, "/v1/tokenize", [][]byte{[]byte(text[:1]), nil, []byte(text[1:])}, room)
				if assert.NoError(t, err) {
					assert.Equal(t, http.StatusOK, status)
					assert.Equal(t, text, string(answer))
				}
			}
		})
	}
	all.Wait()
}
