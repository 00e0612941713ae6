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

	Rate     float64       `json:"rate"`   // bytes a second, of all
	Best     float64       `json:"best"`   // bytes a second, of the fastest round
	Median   float64       `json:"median"` // bytes a second, of the median round
	Latency  Spread        `json:"latency"`
	Prepare  Spread        `json:"prepare"`
	Post     Spread        `json:"post"`
	Transfer Spread        `json:"transfer"`
	Took     time.Duration `json:"took"`
}

// Spread is how a time was spread, in nanoseconds.
type Spread struct {
	Min    time.Duration `json:"min"`
	Median time.Duration `json:"median"`
	Mean   time.Duration `json:"mean"`
	P99    time.Duration `json:"p99"`
}

// NewSpread is how times were spread; all 0 where there is none.
func NewSpread(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	times = slices.Sorted(slices.Values(times))
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	return Spread{Min: times[0], Median: times[len(times)/2], Mean: sum / time.Duration(len(times)), P99: times[min(len(times)-1, len(times)*99/100)]}
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
	if _, err := Round(ctx, remote, local, theirs, job); err != nil { // it connects, and touches memory for the first time
		return Sample{}, err
	}
	s := Series{Op: job.Op, Size: job.Size, Batch: max(job.Batch, 1)}
	for begin := time.Now(); s.Count() < job.Count && (s.Count() == 0 || job.Time <= 0 || time.Since(begin) < job.Time); {
		took, err := Round(ctx, remote, local, theirs, job)
		if err != nil {
			return s.Sample(), err
		}
		s.Add(took)
	}
	return s.Sample(), nil
}

// Took is what one round of a job took: all of its transfers together, and each by itself.
type Took struct {
	Whole time.Duration
	Each  []nixl.Times
}

// Round does a job's transfers once.
func Round(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job) (Took, error) {
	batch := max(job.Batch, 1)
	if uint64(job.Size*batch) > min(local.Len(), theirs.Len) {
		return Took{}, fmt.Errorf("cannot measure %d transfers of %d bytes at a time: %w", batch, job.Size, nixl.ErrRange)
	}
	begin := time.Now()
	times, err := together(ctx, remote, local, theirs, job, batch)
	return Took{time.Since(begin), times}, err
}

// Series collects rounds of one size and direction.
type Series struct {
	Op          nixl.Op
	Size, Batch int

	whole, prepare, post, transfer []time.Duration
}

// Add enters a round.
func (s *Series) Add(t Took) {
	s.whole = append(s.whole, t.Whole)
	for i := range t.Each {
		s.prepare, s.post, s.transfer = append(s.prepare, t.Each[i].Prepare), append(s.post, t.Each[i].Post), append(s.transfer, t.Each[i].Transfer)
	}
}

// Count is the number of transfers.
func (s *Series) Count() int { return len(s.whole) * s.Batch }

// Sample sums the series up; it is empty where there was no round.
func (s *Series) Sample() Sample {
	p := Sample{Op: s.Op, Size: s.Size, Batch: s.Batch, Count: s.Count()}
	for _, t := range s.whole {
		p.Took += t
	}
	p.Latency, p.Prepare, p.Post, p.Transfer = NewSpread(s.whole), NewSpread(s.prepare), NewSpread(s.post), NewSpread(s.transfer)
	if p.Count > 0 {
		round := float64(s.Batch) * float64(s.Size)
		p.Rate = round * float64(len(s.whole)) / p.Took.Seconds()
		p.Best, p.Median = round/p.Latency.Min.Seconds(), round/p.Latency.Median.Seconds()
	}
	return p
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
		if moved[i], err = remote.Prepare(job.Op, local, theirs, pieces); err != nil {
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
