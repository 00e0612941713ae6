package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// Sample is what one size and direction took. Times are for one transfer.
type Sample struct {
	Op    nixl.Op `json:"op"` // 0 read, 1 write
	Size  int     `json:"size"`
	Batch int     `json:"batch"` // transfers under way at a time
	Count int     `json:"count"` // transfers

	Rate     float64       `json:"rate"` // bytes a second, of all
	Best     float64       `json:"best"` // bytes a second, of the fastest transfer
	Latency  Spread        `json:"latency"`
	Prepare  Spread        `json:"prepare"`
	Post     Spread        `json:"post"`
	Transfer Spread        `json:"transfer"`
	Took     time.Duration `json:"took"`
}

// Spread is how a time was spread, in nanoseconds.
type Spread struct {
	Min  time.Duration `json:"min"`
	Mean time.Duration `json:"mean"`
	P99  time.Duration `json:"p99"`
}

// NewSpread sorts the times.
func NewSpread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return Spread{Min: times[0], Mean: sum / time.Duration(len(times)), P99: times[min(len(times)-1, len(times)*99/100)]}
}

// Job is what Measure does.
type Job struct {
	Op     nixl.Op
	Size   int
	Batch  int           // transfers at a time; 0 is one
	Count  int           // transfers at most
	Time   time.Duration // after which no more begin; 0 is no limit
	Pieces []nixl.Piece  // instead of one of Size
}

// Measure moves bytes between a memory and a peer's, and tells what it took. The first transfer, which connects, does not count.
func Measure(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job) (Sample, error) {
	batch := max(job.Batch, 1)
	if uint64(job.Size*batch) > min(local.Len(), theirs.Len) {
		return Sample{}, fmt.Errorf("cannot measure %d transfers of %d bytes at a time: %w", batch, job.Size, nixl.ErrRange)
	}
	s := Sample{Op: job.Op, Size: job.Size, Batch: batch}
	var latency, prepare, post, transfer []time.Duration
	begin := time.Now()
	for turn := 0; s.Count < job.Count; turn++ {
		if turn > 1 && job.Time > 0 && time.Since(begin) > job.Time {
			break
		}
		round := time.Now()
		times, err := together(ctx, remote, local, theirs, job, batch)
		took := time.Since(round)
		if err != nil {
			return s, err
		}
		if turn == 0 { // it connects, and touches memory for the first time
			begin = time.Now()
			continue
		}
		for _, t := range times {
			latency, prepare, post, transfer = append(latency, took), append(prepare, t.Prepare), append(post, t.Post), append(transfer, t.Transfer)
		}
		s.Count += batch
		s.Took += took
	}
	s.Latency, s.Prepare, s.Post, s.Transfer = NewSpread(latency), NewSpread(prepare), NewSpread(post), NewSpread(transfer)
	s.Rate = float64(s.Count) * float64(job.Size) / s.Took.Seconds()
	s.Best = float64(batch) * float64(job.Size) / s.Latency.Min.Seconds()
	return s, nil
}

// together runs a batch of transfers at a time, each with its own part of both memories.
func together(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job, batch int) ([]nixl.Times, error) {
	moved := make([]*nixl.Transfer, batch)
	for i := range moved {
		at := uint64(i * job.Size)
		pieces := []nixl.Piece{{Local: at, Remote: at, Len: uint64(job.Size)}}
		if job.Pieces != nil {
			pieces = slices.Clone(job.Pieces)
		}
		var err error
		if moved[i], err = remote.Prepare(job.Op, local, theirs, pieces, nil); err != nil {
			return nil, err
		}
		if err := moved[i].Post(); err != nil {
			return nil, err
		}
	}
	var times []nixl.Times
	for _, t := range moved {
		if err := t.Wait(ctx); err != nil {
			return nil, err
		}
		times = append(times, t.Times())
	}
	return times, nil
}
