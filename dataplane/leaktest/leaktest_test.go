package leaktest_test

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

// late is tests that end before a goroutine of theirs does.
type late struct {
	*testing.M
	after time.Duration
}

func (l late) Run() int {
	code := l.M.Run()
	go time.Sleep(l.after)
	return code
}

// TestMain needs the patience: goleak alone waits for less than that.
func TestMain(m *testing.M) { leaktest.Main(late{m, 2 * time.Second}) }

func TestNothing(*testing.T) {}
