package link

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// Sample is the measurement of one size and direction. Times are of one transfer.
type Sample struct {
	Op    nixl.Op `json:"op"` // 0 read, 1 write
	Size  int     `json:"size"`
	Batch int     `json:"batch"` // concurrent transfers
	Count int     `json:"count"` // transfers

	Rate     float64       `json:"rate"`   // bytes a second over all rounds
	Best     float64       `json:"best"`   // of the fastest round
	Median   float64       `json:"median"` // of the median round
	Latency  Spread        `json:"latency"`
	Prepare  Spread        `json:"prepare"`
	Post     Spread        `json:"post"`
	Transfer Spread        `json:"transfer"`
	Took     time.Duration `json:"took"`
}

// Spread is the distribution of a time, in nanoseconds.
type Spread struct {
	Min    time.Duration `json:"min"`
	Median time.Duration `json:"median"`
	Mean   time.Duration `json:"mean"`
	P99    time.Duration `json:"p99"`
}

// NewSpread returns the distribution of times; zeros for none.
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

// Job is a measurement.
type Job struct {
	Op     nixl.Op
	Size   int
	Batch  int           // concurrent transfers; 0 is one
	Count  int           // transfers at most
	Time   time.Duration // after which no transfer begins; 0 is no limit
	Pieces []nixl.Piece  // instead of one of Size
}

// Measure measures transfers between a memory and a peer's memory. The first transfer, which
// connects, does not count.
func Measure(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job) (Sample, error) {
	if _, err := RunOnce(ctx, remote, local, theirs, job); err != nil {
		// Connects, and touches memory for the first time.
		return Sample{}, err
	}
	s := Series{Op: job.Op, Size: job.Size, Batch: max(job.Batch, 1)}
	for begin := time.Now(); s.Count() < job.Count && (s.Count() == 0 || job.Time <= 0 || time.Since(begin) < job.Time); {
		took, err := RunOnce(ctx, remote, local, theirs, job)
		if err != nil {
			return s.Sample(), err
		}
		s.Add(took)
	}
	return s.Sample(), nil
}

// Timing is the time of one round: of all transfers together, and of each.
type Timing struct {
	Whole time.Duration
	Each  []nixl.Times
}

// RunOnce does the transfers of a job once.
func RunOnce(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job) (Timing, error) {
	batch := max(job.Batch, 1)
	if uint64(job.Size*batch) > min(local.Len(), theirs.Len) {
		return Timing{}, fmt.Errorf("cannot measure %d transfers of %d bytes at a time: %w", batch, job.Size, nixl.ErrRange)
	}
	begin := time.Now()
	times, err := runBatch(ctx, remote, local, theirs, job, batch)
	return Timing{time.Since(begin), times}, err
}

// Series collects rounds of one size and direction.
type Series struct {
	Op          nixl.Op
	Size, Batch int

	whole, prepare, post, transfer []time.Duration
}

// Add adds a round.
func (s *Series) Add(t Timing) {
	s.whole = append(s.whole, t.Whole)
	for i := range t.Each {
		s.prepare, s.post, s.transfer = append(s.prepare, t.Each[i].Prepare), append(s.post, t.Each[i].Post), append(s.transfer, t.Each[i].Transfer)
	}
}

// Count returns the number of transfers.
func (s *Series) Count() int { return len(s.whole) * s.Batch }

// Sample returns the measurement; it is empty without rounds.
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

// runBatch runs concurrent transfers, each with its own part of both memories.
func runBatch(ctx context.Context, remote *nixl.Remote, local *nixl.Memory, theirs nixl.RemoteMemory, job Job, batch int) ([]nixl.Times, error) {
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
