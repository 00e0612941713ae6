package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/link"
	"github.com/warmpath/warmpath/nixl"
)

// nixlBench is one run.
type nixlBench struct {
	o        *nixlOptions
	ctx      context.Context
	result   *nixlResult
	remote   *nixl.Remote
	memory   *nixl.Memory
	far      *nixlPeer
	progress func(string)
}

// all measures every way at every size; the ways of one size follow each other, so that they meet the same load.
func (b *nixlBench) all() error {
	conn, err := net.Dial("tcp", b.far.TCP)
	if err != nil {
		return err
	}
	defer conn.Close()
	target := make([]byte, b.o.size())
	var samples []link.Sample
	sizes := []int{64, 64 << 10, 1 << 20, largest}
	if b.o.huge {
		sizes = append(sizes, 512<<20)
	}
	for _, size := range sizes {
		b.progress("measuring " + bytesText(size))
		ways := []struct {
			name string
			copy func() error
		}{
			{"memcpy", func() error { copy(target[:size], b.memory.Bytes()[:size]); return nil }},
			{"process_vm_readv", func() error { return b.readv(target[:size]) }},
			{"TCP", func() error { return receive(conn, target[:size]) }},
		}
		for _, w := range ways {
			s, err := b.plain(size, w.copy)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", w.name, size, err)
			}
			b.result.Rows = append(b.result.Rows, nixlRow{Way: w.name, Sample: s})
		}
		for _, op := range []nixl.Op{nixl.Read, nixl.Write} {
			s, err := b.nixl(link.Job{Op: op, Size: size, Batch: b.o.batch})
			if err != nil {
				return err
			}
			samples = append(samples, s)
			b.result.Rows = append(b.result.Rows, nixlRow{Way: "NIXL " + [...]string{"read", "write"}[op], Sample: s})
		}
	}
	b.result.Path = link.Recognise(&b.result.Facts, &b.result.Facts, samples)
	if b.o.pages {
		return b.pages()
	}
	return nil
}

// nixl measures one job.
func (b *nixlBench) nixl(job link.Job) (link.Sample, error) {
	job.Count, job.Time = 10_000, b.o.time
	return link.Measure(b.ctx, b.remote, b.memory, b.remote.Memories()[0], job)
}

// plain measures something that copies size bytes.
func (b *nixlBench) plain(size int, do func() error) (link.Sample, error) {
	s := link.Sample{Size: size, Batch: 1}
	var times []time.Duration
	for begin := time.Now(); s.Count < 10_000 && (s.Count < 2 || time.Since(begin) < b.o.time); s.Count++ {
		start := time.Now()
		if err := do(); err != nil {
			return s, err
		}
		took := time.Since(start)
		if s.Count > 0 {
			times = append(times, took)
			s.Took += took
		}
	}
	s.Count--
	s.Latency = link.NewSpread(times)
	s.Rate = float64(size) * float64(s.Count) / s.Took.Seconds()
	s.Best = float64(size) / s.Latency.Min.Seconds()
	return s, nil
}

// readv reads the peer's memory by system call.
func (b *nixlBench) readv(into []byte) error {
	for at := 0; at < len(into); {
		local := []unix.Iovec{{Base: &into[at], Len: uint64(len(into) - at)}}
		remote := []unix.RemoteIovec{{Base: uintptr(b.far.Addr) + uintptr(at), Len: len(into) - at}}
		n, err := unix.ProcessVMReadv(b.far.PID, local, remote, 0)
		if err != nil {
			return err
		}
		at += n
	}
	return nil
}

// receive asks for bytes by TCP and reads them.
func receive(conn net.Conn, into []byte) error {
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(into)))
	if _, err := conn.Write(size[:]); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, into)
	return err
}

// pages moves 64 MiB in pages of 4 KiB.
func (b *nixlBench) pages() error {
	const count = largest / pageSize
	random := rand.New(rand.NewPCG(1, 1)) // the same pages in each run
	for _, way := range []string{"neighbours", "scattered here", "scattered on both sides"} {
		b.progress("measuring pages, " + way)
		local, remote, order := ascending(count), ascending(count), random.Perm(count)
		if way != "neighbours" {
			local = random.Perm(count)
		}
		if way == "scattered on both sides" {
			remote = random.Perm(count)
		}
		pieces := make([]nixl.Piece, count)
		for at, i := range order {
			pieces[at] = nixl.Piece{Local: uint64(local[i]) * pageSize, Remote: uint64(remote[i]) * pageSize, Len: pageSize}
		}
		s, err := b.nixl(link.Job{Op: nixl.Read, Size: largest, Pieces: pieces})
		if err != nil {
			return err
		}
		b.result.Rows = append(b.result.Rows, nixlRow{Way: "NIXL read, pages " + way, Pieces: count, Sample: s})
	}
	return nil
}

func ascending(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return slices.Clip(list)
}
