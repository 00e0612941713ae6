package index

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/warmpath/warmpath/radix"
)

// A workload file, all little-endian:
//
//	magic "KVWL0001"
//	u32 workers, blocks an id, requests R, ops O, warm ops, tests T; u64 pairs, distinct blocks
//	R x { u32 blocks, u32 blocks of the prompt }
//	u64 x sum of blocks: content hashes
//	u64 x sum of blocks: engine hashes
//	O x { u8 kind, u8 0, u16 worker, u32 request, u32 start, u32 end }
//	T x { u32 request, u32 depth, u64 sum }
const (
	magic       = "KVWL0001"
	headerBytes = len(magic) + 6*4 + 2*8
	opBytes     = 16
	testBytes   = 16
)

// ErrFormat is a file that is no workload.
var ErrFormat = errors.New("index: bad workload")

// ReadFile loads a workload.
func ReadFile(name string) (*Workload, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read the workload: %w", err)
	}
	w, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read the workload %s: %w: make it again with --write",
			name, err)
	}
	return w, nil
}

// Parse decodes a workload file and checks all references in it. It keeps no part of data.
func Parse(data []byte) (*Workload, error) {
	if len(data) < headerBytes {
		return nil, fmt.Errorf("%w: %d bytes are less than its header of %d",
			ErrFormat, len(data), headerBytes)
	}
	if string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it begins with %q and not with %q",
			ErrFormat, data[:len(magic)], magic)
	}
	d := decoder(data[len(magic):])
	w := &Workload{Workers: int(d.u32()), IDBlocks: int(d.u32())}
	requests, ops := int(d.u32()), int(d.u32())
	w.Warm = int(d.u32())
	tests := int(d.u32())
	w.Pairs, w.Distinct = int(d.u64()), int(d.u64())
	blocks, err := w.parseRequests(&d, requests)
	if err != nil {
		return nil, err
	}
	// The products are far below 2^63: each factor is below 2^32 or the number of bytes read.
	if want := blocks*16 + ops*opBytes + tests*testBytes; len(d) != want {
		return nil, fmt.Errorf("%w: %d bytes after the requests, want %d for %d blocks, %d ops and %d tests",
			ErrFormat, len(d), want, blocks, ops, tests)
	}
	w.content, w.engineHashes = make([]radix.Hash, blocks), make([]uint64, blocks)
	for i := range w.content {
		w.content[i] = radix.Hash(d.u64())
	}
	for i := range w.engineHashes {
		w.engineHashes[i] = d.u64()
	}
	if err := w.parseOps(&d, ops); err != nil {
		return nil, err
	}
	return w, w.parseTests(&d, tests)
}

// parseRequests decodes the lengths of the requests and returns their sum.
func (w *Workload) parseRequests(d *decoder, n int) (blocks int, err error) {
	if len(*d)/8 < n {
		return 0, fmt.Errorf("%w: it ends within %d requests", ErrFormat, n)
	}
	w.first, w.prompt = make([]uint64, n+1), make([]uint32, n)
	for i := range n {
		all := d.u32()
		w.prompt[i] = d.u32()
		if w.prompt[i] > all {
			return 0, fmt.Errorf("%w: request %d has a prompt of %d blocks among %d",
				ErrFormat, i, w.prompt[i], all)
		}
		w.first[i+1] = w.first[i] + uint64(all)
	}
	return int(w.first[n]), nil
}

func (w *Workload) parseOps(d *decoder, n int) error {
	if w.Warm > n {
		return fmt.Errorf("%w: %d warm ops of %d", ErrFormat, w.Warm, n)
	}
	w.Ops = make([]Op, n)
	for i := range w.Ops {
		head := d.u32()
		o := Op{Kind: Kind(head), Worker: uint16(head >> 16), Req: d.u32(), Start: d.u32(), End: d.u32()}
		switch {
		case o.Kind > Clear || byte(head>>8) != 0:
			return fmt.Errorf("%w: op %d is of kind %d", ErrFormat, i, uint16(head))
		case int(o.Worker) >= w.Workers:
			return fmt.Errorf("%w: op %d is of worker %d among %d",
				ErrFormat, i, o.Worker, w.Workers)
		case int(o.Req) >= w.Requests():
			return fmt.Errorf("%w: op %d is of request %d among %d",
				ErrFormat, i, o.Req, w.Requests())
		case o.Start > o.End || int(o.End) > len(w.Content(o.Req)):
			return fmt.Errorf("%w: op %d is of blocks %d to %d of request %d, which has %d",
				ErrFormat, i, o.Start, o.End, o.Req, len(w.Content(o.Req)))
		}
		w.Ops[i] = o
	}
	return nil
}

func (w *Workload) parseTests(d *decoder, n int) error {
	w.Tests = make([]Answer, n)
	for i := range w.Tests {
		t := Answer{Req: d.u32(), Depth: d.u32(), Sum: d.u64()}
		if int(t.Req) >= w.Requests() {
			return fmt.Errorf("%w: test %d is of request %d among %d",
				ErrFormat, i, t.Req, w.Requests())
		}
		w.Tests[i] = t
	}
	return nil
}

// decoder is the rest of a file. Callers have checked its length.
type decoder []byte

func (d *decoder) u32() uint32 {
	v := binary.LittleEndian.Uint32(*d)
	*d = (*d)[4:]
	return v
}

func (d *decoder) u64() uint64 {
	v := binary.LittleEndian.Uint64(*d)
	*d = (*d)[8:]
	return v
}

// WriteFile writes a workload to a file.
func (w *Workload) WriteFile(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("cannot write the workload: %w", err)
	}
	if err := errors.Join(w.Write(f), f.Close()); err != nil {
		return fmt.Errorf("cannot write the workload %s: %w", name, err)
	}
	return nil
}

// Write encodes a workload.
func (w *Workload) Write(to io.Writer) error {
	out := bufio.NewWriterSize(to, 1<<20)
	var buf []byte
	put := func() {
		_, _ = out.Write(buf) // a bufio.Writer keeps its error for Flush
		buf = buf[:0]
	}
	u32, u64 := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint64
	buf = append(buf, magic...)
	for _, n := range []int{w.Workers, w.IDBlocks, w.Requests(), len(w.Ops), w.Warm, len(w.Tests)} {
		buf = u32(buf, uint32(n))
	}
	buf = u64(u64(buf, uint64(w.Pairs)), uint64(w.Distinct))
	put()
	for i, n := range w.prompt {
		buf = u32(u32(buf, uint32(w.first[i+1]-w.first[i])), n)
		put()
	}
	for _, h := range w.content {
		buf = u64(buf, uint64(h))
		put()
	}
	for _, h := range w.engineHashes {
		buf = u64(buf, h)
		put()
	}
	for _, o := range w.Ops {
		buf = u32(u32(u32(u32(buf, uint32(o.Kind)|uint32(o.Worker)<<16), o.Req), o.Start), o.End)
		put()
	}
	for _, t := range w.Tests {
		buf = u64(u32(u32(buf, t.Req), t.Depth), t.Sum)
		put()
	}
	return out.Flush()
}
