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

	"github.com/warmpath/warmpath/dataplane/sidecar/link"
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

// nixlWay is one way of moving bytes.
type nixlWay struct {
	name   string
	op     nixl.Op
	batch  int
	pieces int // number of pieces, if several
	once   func() (link.Timing, error)
}

const plainWay = "process_vm_readv" // the yardstick of all others

// all measures every way at every size.
func (b *nixlBench) all() error {
	conn, err := net.Dial("tcp", b.far.TCP)
	if err != nil {
		return err
	}
	defer conn.Close()
	target := make([]byte, b.o.bytes)
	var samples []link.Sample
	for _, size := range []int{64, 64 << 10, 1 << 20, 64 << 20, b.o.bytes} {
		if size > b.o.bytes || size == b.o.bytes && len(samples) > 0 && samples[len(samples)-1].Size == size {
			continue
		}
		rows, err := b.turns(size, []nixlWay{
			plainly("memcpy", func() error { copy(target[:size], b.memory.Bytes()); return nil }),
			plainly(plainWay, func() error { return b.readv(b.memory.Bytes()[:size]) }),
			plainly("TCP", func() error { return receive(conn, b.memory.Bytes()[:size]) }),
			b.nixl("NIXL read", link.Job{Op: nixl.Read, Size: size, Batch: b.o.batch}),
			b.nixl("NIXL write", link.Job{Op: nixl.Write, Size: size, Batch: b.o.batch}),
		})
		if err != nil {
			return err
		}
		for i := range rows {
			if rows[i].Way == "NIXL read" || rows[i].Way == "NIXL write" {
				samples = append(samples, rows[i].Sample)
			}
		}
	}
	b.result.Path = link.InferPath(&b.result.Facts, &b.result.Facts, samples)
	if b.o.pages {
		return b.pages()
	}
	return nil
}

// leastRounds are measured however long they take; mostRounds bounds the rounds of small sizes.
const leastRounds, mostRounds = 3, 10_000

// turns measures all ways in turns; each round begins with another way. The first round connects
// and touches memory, and does not count.
func (b *nixlBench) turns(size int, ways []nixlWay) ([]nixlRow, error) {
	b.progress(fmt.Sprintf("measuring %s: %s and %d more ways", bytesText(size), ways[0].name, len(ways)-1))
	series := make([]link.Series, len(ways))
	took := make([][]time.Duration, len(ways)) // by round
	plain := slices.IndexFunc(ways, func(w nixlWay) bool { return w.name == plainWay })
	for i := range ways {
		series[i] = link.Series{Op: ways[i].op, Size: size, Batch: ways[i].batch}
	}
	begin, limit := time.Now(), b.o.time*time.Duration(len(ways))
	for round := 0; round <= leastRounds || round <= mostRounds && time.Since(begin) < limit; round++ {
		for turn := range ways {
			i := (turn + round) % len(ways)
			t, err := ways[i].once()
			if err != nil {
				return nil, fmt.Errorf("%s of %d bytes: %w", ways[i].name, size, err)
			}
			if round > 0 {
				series[i].Add(t)
				took[i] = append(took[i], t.Whole)
			}
		}
		if round == 0 {
			begin = time.Now()
		}
	}
	var rows []nixlRow
	for i := range ways {
		rows = append(rows, nixlRow{Way: ways[i].name, Pieces: ways[i].pieces, Sample: series[i].Sample(), Share: float64(ways[i].batch) * share(took[plain], took[i])})
	}
	b.result.Rows = append(b.result.Rows, rows...)
	return rows, nil
}

// share is the median over the rounds of plain's time / way's time.
func share(plain, way []time.Duration) float64 {
	var list []float64
	for i := range way {
		list = append(list, plain[i].Seconds()/max(way[i], 1).Seconds())
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// plainly times a copying function.
func plainly(name string, do func() error) nixlWay {
	return nixlWay{name: name, batch: 1, once: func() (link.Timing, error) {
		begin := time.Now()
		err := do()
		return link.Timing{Whole: time.Since(begin)}, err
	}}
}

// nixl times one transfer by NIXL.
func (b *nixlBench) nixl(name string, job link.Job) nixlWay {
	return nixlWay{name: name, op: job.Op, batch: max(job.Batch, 1), pieces: len(job.Pieces), once: func() (link.Timing, error) {
		return link.RunOnce(b.ctx, b.remote, b.memory, b.remote.Memories()[0], job)
	}}
}

// readv reads the peer's memory with process_vm_readv.
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

// readPieces reads pieces with process_vm_readv, as many per call as the kernel accepts.
func (b *nixlBench) readPieces(pieces []nixl.Piece) error {
	const most = 1024 // IOV_MAX
	local, remote := make([]unix.Iovec, 0, most), make([]unix.RemoteIovec, 0, most)
	for some := range slices.Chunk(pieces, most) {
		local, remote = local[:0], remote[:0]
		bytes := 0
		for _, p := range some {
			local = append(local, unix.Iovec{Base: &b.memory.Bytes()[p.Local], Len: p.Len})
			remote = append(remote, unix.RemoteIovec{Base: uintptr(b.far.Addr + p.Remote), Len: int(p.Len)})
			bytes += int(p.Len)
		}
		if n, err := unix.ProcessVMReadv(b.far.PID, local, remote, 0); err != nil || n != bytes {
			return fmt.Errorf("%s moved %d of %d bytes: %w", plainWay, n, bytes, err)
		}
	}
	return nil
}

// receive asks for bytes over TCP and reads them.
func receive(conn net.Conn, into []byte) error {
	var size [8]byte
	binary.LittleEndian.PutUint64(size[:], uint64(len(into)))
	if _, err := conn.Write(size[:]); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, into)
	return err
}

// pages moves the largest size in pages of 4 KiB.
func (b *nixlBench) pages() error {
	size := b.o.bytes
	here, both := b.scatter(true, false), b.scatter(true, true)
	job := func(pieces []nixl.Piece) link.Job { return link.Job{Op: nixl.Read, Size: size, Pieces: pieces} }
	_, err := b.turns(size, []nixlWay{
		plainly(plainWay, func() error { return b.readv(b.memory.Bytes()[:size]) }),
		b.nixl("NIXL read, pages neighbours", job(b.scatter(false, false))),
		plainly(plainWay+", pages scattered here", func() error { return b.readPieces(here) }),
		b.nixl("NIXL read, pages scattered here", job(here)),
		plainly(plainWay+", pages scattered on both sides", func() error { return b.readPieces(both) }),
		b.nixl("NIXL read, pages scattered on both sides", job(both)),
	})
	return err
}

// scatter returns all pages in random order, shuffled on one side or independently on both.
func (b *nixlBench) scatter(here, there bool) []nixl.Piece {
	random := rand.New(rand.NewPCG(1, 1)) // the same pages in each run
	count := b.o.bytes / pageSize
	place := func(mixed bool) []int {
		if mixed {
			return random.Perm(count)
		}
		list := make([]int, count)
		for i := range list {
			list[i] = i
		}
		return list
	}
	local, remote := place(here), place(there)
	pieces := make([]nixl.Piece, count)
	for at, i := range random.Perm(count) {
		pieces[at] = nixl.Piece{Local: uint64(local[i]) * pageSize, Remote: uint64(remote[i]) * pageSize, Len: pageSize}
	}
	return pieces
}
