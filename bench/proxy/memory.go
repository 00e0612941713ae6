package proxy

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// Memory is a router's memory use for prompts without common beginnings.
type Memory struct {
	Before int64        `json:"rss_before_bytes"`
	Run    *Measurement `json:"run"`
	After  int64        `json:"rss_after_bytes"` // a few seconds later
}

// The prompts that fill trees: each brings 64 KiB that no other has, for 9 s.
const (
	memorySize = 64 << 10
	memoryTime = 9 * time.Second
	memoryRest = 5 * time.Second
)

// MeasureMemory sends such prompts as fast as they are answered. The router should have been
// started for it.
func MeasureMemory(ctx context.Context, cfg load.Config, pid int, progress io.Writer) (*Memory, error) {
	cfg.Size, cfg.Turns, cfg.Rate, cfg.Warm, cfg.Time = memorySize, 0, 0, 0, memoryTime
	cfg.Connections = min(cfg.Connections, 32)
	cfg.Progress = func(gone time.Duration, answered uint64) {
		if u, err := Use(pid); err == nil {
			fmt.Fprintf(progress, "%v: %d prompts, %s\n", gone.Round(time.Second), answered, bytesText(u.RSS))
		}
	}
	before, err := Use(pid)
	if err != nil {
		return nil, err
	}
	m := &Memory{Before: before.RSS}
	if m.Run, err = Measure(ctx, cfg, pid); err != nil {
		return nil, err
	}
	if err := pause(ctx, memoryRest); err != nil {
		return nil, err
	}
	after, err := Use(pid)
	if err != nil {
		return nil, err
	}
	m.After = after.RSS
	return m, m.Run.Err()
}

// String says it in a line.
func (m *Memory) String() string {
	return fmt.Sprintf("%s: %d prompts of 64 KiB, each another: memory %s before, %s at the highest, %s when they had ended for %v\n",
		m.Run.API, m.Run.OK, bytesText(m.Before), bytesText(m.Run.Router.Peak), bytesText(m.After), memoryRest)
}
