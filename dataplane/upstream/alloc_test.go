//go:build !race

package upstream_test

import (
	"errors"
	"io"
	"testing"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

func TestDoDoesNotAllocate(t *testing.T) {
	for name, answer := range map[string]string{"plain": plainAnswer, "sse": sseAnswer} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, echo(answer))
			tr := newTransport(t, upstream.Config{})
			req, buf := chat(t, w.addr(), 300), make([]byte, 4096)
			var c upstream.Canceler
			do := func() {
				c.Reset()
				resp, err := tr.Do(&c, req)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = resp.Read(buf)
				}
				resp.Close()
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(200, do); n != 0 {
				t.Errorf("a request allocates %v times, want 0", n)
			}
		})
	}
}
