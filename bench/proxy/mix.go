package proxy

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/bench/proxy/load"
)

// part is one kind of request of a mixed soak, and its share of the router's time.
type part struct {
	share float64
	load  load.Config
}

// mixed are the kinds: short and long, chats and ids, conversations, streams. Targets and model are
// base's.
func mixed(base load.Config) (all []part) {
	add := func(share float64, c load.Config) {
		c.Targets, c.Model, c.Timeout = base.Targets, base.Model, base.Timeout
		c.Seed = base.Seed + uint64(100*len(all))
		all = append(all, part{share, c})
	}
	add(0.15, load.Config{API: load.IDs, Size: 300, Tokens: 16, Connections: 64})
	add(0.15, load.Config{API: load.Chat, Size: 8 << 10, Tokens: 16, Connections: 64})
	add(0.15, load.Config{API: load.Text, Size: 2 << 10, Tokens: 16, Connections: 64})
	add(0.2, load.Config{API: load.Chat, Size: 16 << 10, Tokens: 32, Turns: 8, Connections: 64})
	add(0.1, load.Config{API: load.IDs, Size: 64 << 10, Tokens: 16, Connections: 32})
	add(0.05, load.Config{API: load.IDs, Size: 4 << 20, Tokens: 16, Connections: 4})
	add(0.2, load.Config{API: load.Chat, Size: 1 << 10, Tokens: 64, Stream: true, Connections: 64})
	return all
}

// leaving are the clients that go before they have their answer.
func leaving(base load.Config) load.Config {
	base.API, base.Size, base.Tokens, base.Stream, base.Rate, base.Connections = load.Chat, 4<<10, 64, true, leaveRate, 1
	base.Seed += 7777
	base.Time = 1 // ctx ends it
	return base
}

const leaveRate = 10 // a second

// Variables for tests only.
var (
	faultEvery = 10 * time.Second // how often a worker fails
	faultTime  = 3 * time.Second  // and for how long

	warmTime     = time.Second     // before anything is measured
	capacityTime = 3 * time.Second // the capacity of each part is measured before
)

// mostCapacityTime bounds how long a target may take that answers nothing for a while, as a busy
// machine.
const mostCapacityTime = time.Minute

// disturb has one worker after the other fail for a while, until ctx ends, and all be well then.
// There are at least two.
func disturb(ctx context.Context, workers []string, progress io.Writer) (times int) {
	for i := 0; ; i++ {
		if pause(ctx, faultEvery-faultTime) != nil {
			return times
		}
		addr := workers[i/2%len(workers)]
		if err := setFault(addr, []string{"close", "busy"}[i%2]); err != nil {
			fmt.Fprintf(progress, "cannot have %s fail: %v\n", addr, err)
			return times
		}
		times++
		err := pause(ctx, faultTime)
		if failed := setFault(addr, "none"); failed != nil {
			fmt.Fprintf(progress, "cannot have %s work again: %v\n", addr, failed)
		}
		if err != nil {
			return times
		}
	}
}

// connectTime bounds a word to a mock worker.
const connectTime = 30 * time.Second

// setFault tells a mock worker.
func setFault(addr, kind string) error {
	var c fasthttp.Client
	defer c.CloseIdleConnections()
	status, _, err := c.GetTimeout(nil, "http://"+addr+"/bench/fault?kind="+kind, connectTime)
	if err != nil {
		return fmt.Errorf("cannot set the fault: %w", err)
	}
	if status != fasthttp.StatusOK {
		return fmt.Errorf("cannot set the fault: status %d", status)
	}
	return nil
}

// capacities measures how much of each part alone the router can do, and sets the rate of half of
// its share.
func (s *Soak) capacities(ctx context.Context, cfg *SoakConfig, parts []part) error {
	for i := range parts {
		c := parts[i].load
		c.Rate, c.Warm, c.Time = 0, warmTime, capacityTime
		m, err := Measure(ctx, c, cfg.PID)
		for ; err == nil && m.Answered+m.Failed == 0 && c.Time < mostCapacityTime; m, err = Measure(ctx, c, cfg.PID) {
			c.Time *= 4
		}
		if err != nil {
			return err
		}
		if m.Answered == 0 {
			return fmt.Errorf("%w: nothing was answered: %v", ErrFailed, m.Errors)
		}
		s.Capacity = append(s.Capacity, m.Rate)
		parts[i].load.Rate = m.Rate * parts[i].share / 2
		fmt.Fprintf(cfg.Progress, "capacity %s %s: %.0f/s alone, %.1f/s are sent\n", c.API, bytesText(int64(c.Size)), m.Rate, parts[i].load.Rate)
	}
	return nil
}

// send sends all parts for a round, with their disturbances.
func (s *Soak) send(ctx context.Context, cfg *SoakConfig, parts []part, began time.Time) error {
	runs := make([]*load.Result, len(parts))
	failures := make([]error, len(parts)+1)
	var wg, around sync.WaitGroup
	during, end := context.WithCancel(ctx)
	around.Go(func() { s.watch(during, cfg, began) })
	if len(cfg.Workers) > 1 {
		around.Go(func() { s.Faults += disturb(during, cfg.Workers, cfg.Progress) })
		around.Go(func() {
			var left load.Left
			left, failures[len(parts)] = load.Leave(during, leaving(cfg.Load))
			s.Left.Add(left)
		})
	}
	for i := range parts {
		c := parts[i].load
		c.Warm, c.Time, c.Connections, c.Seed = warmTime, cfg.Time/rounds, max(c.Connections, openConnections), c.Seed+1
		wg.Go(func() { runs[i], failures[i] = load.Run(ctx, c) })
	}
	wg.Wait()
	end()
	around.Wait()
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	if s.Runs == nil {
		s.Runs = runs
		return nil
	}
	for i, r := range runs {
		s.Runs[i].Join(r)
	}
	return nil
}
