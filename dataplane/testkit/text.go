package testkit

import (
	"log/slog"
	"strings"
	"sync"
)

// Text is a text, mostly a log, that several goroutines write and a test reads.
type Text struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns what was written.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Log returns a logger that writes to it.
func (t *Text) Log() *slog.Logger { return slog.New(slog.NewTextHandler(t, nil)) }
