package index

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/warmpath/warmpath/radix"
)

// A workload file, all little-endian: a fileHeader, a fileRequest for each request, the content
// hashes of all blocks, their engine hashes, a fileOp for each op, and an [Answer] for each test.
const magic = "KVWL0001"

type fileHeader struct {
	Magic                                         [len(magic)]byte
	Workers, IDBlocks, Requests, Ops, Warm, Tests uint32
	Pairs, Distinct                               uint64
}

// fileRequest is the numbers of a request's blocks and of those of its prompt.
type fileRequest struct{ Blocks, Prompt uint32 }

type fileOp struct {
	Kind            Kind
	_               uint8
	Worker          uint16
	Req, Start, End uint32
}

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
	from := bytes.NewReader(data)
	var h fileHeader
	if err := binary.Read(from, binary.LittleEndian, &h); err != nil || string(h.Magic[:]) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %q and a header", ErrFormat, magic)
	}
	if from.Len()/8 < int(h.Requests) {
		return nil, fmt.Errorf("%w: it ends within %d requests", ErrFormat, h.Requests)
	}
	requests := make([]fileRequest, h.Requests)
	w := &Workload{
		Workers: int(h.Workers), IDBlocks: int(h.IDBlocks), Warm: int(h.Warm), Pairs: int(h.Pairs), Distinct: int(h.Distinct),
		first: make([]uint64, 1, h.Requests+1),
	}
	err := binary.Read(from, binary.LittleEndian, requests)
	blocks := uint64(0)
	for i, r := range requests {
		if r.Prompt > r.Blocks {
			return nil, fmt.Errorf("%w: request %d has a prompt of %d blocks among %d", ErrFormat, i, r.Prompt, r.Blocks)
		}
		blocks += uint64(r.Blocks)
		w.first, w.prompt = append(w.first, blocks), append(w.prompt, r.Prompt)
	}
	// Each factor is below 2^32 or the number of bytes read.
	if want := 16 * (blocks + uint64(h.Ops) + uint64(h.Tests)); uint64(from.Len()) != want {
		return nil, fmt.Errorf("%w: %d bytes after the requests, want %d for %d blocks, %d ops and %d tests",
			ErrFormat, from.Len(), want, blocks, h.Ops, h.Tests)
	}
	ops := make([]fileOp, h.Ops)
	w.content, w.engineHashes, w.Tests = make([]radix.Hash, blocks), make([]uint64, blocks), make([]Answer, h.Tests)
	for _, part := range []any{w.content, w.engineHashes, ops, w.Tests} {
		err = errors.Join(err, binary.Read(from, binary.LittleEndian, part))
	}
	for _, o := range ops {
		w.Ops = append(w.Ops, Op{o.Kind, o.Worker, o.Req, o.Start, o.End})
	}
	return w, errors.Join(err, w.check())
}

// check refuses references to blocks, requests and workers that are not there.
func (w *Workload) check() error {
	if w.Warm > len(w.Ops) {
		return fmt.Errorf("%w: %d warm ops of %d", ErrFormat, w.Warm, len(w.Ops))
	}
	for i, o := range w.Ops {
		if o.Kind > Clear || int(o.Worker) >= w.Workers || int(o.Req) >= w.Requests() ||
			o.Start > o.End || int(o.End) > len(w.Content(o.Req)) {
			return fmt.Errorf("%w: op %d is %+v, of %d workers and %d requests", ErrFormat, i, o, w.Workers, w.Requests())
		}
	}
	for i, t := range w.Tests {
		if int(t.Req) >= w.Requests() {
			return fmt.Errorf("%w: test %d is of request %d among %d", ErrFormat, i, t.Req, w.Requests())
		}
	}
	return nil
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
	h := fileHeader{
		Workers: uint32(w.Workers), IDBlocks: uint32(w.IDBlocks), Requests: uint32(w.Requests()), Ops: uint32(len(w.Ops)),
		Warm: uint32(w.Warm), Tests: uint32(len(w.Tests)), Pairs: uint64(w.Pairs), Distinct: uint64(w.Distinct),
	}
	copy(h.Magic[:], magic)
	requests, ops := make([]fileRequest, w.Requests()), make([]fileOp, len(w.Ops))
	for i := range requests {
		requests[i] = fileRequest{uint32(w.first[i+1] - w.first[i]), w.prompt[i]}
	}
	for i, o := range w.Ops {
		ops[i] = fileOp{Kind: o.Kind, Worker: o.Worker, Req: o.Req, Start: o.Start, End: o.End}
	}
	out := bufio.NewWriter(to)
	for _, part := range []any{&h, requests, w.content, w.engineHashes, ops, w.Tests} {
		if err := binary.Write(out, binary.LittleEndian, part); err != nil {
			return fmt.Errorf("cannot write: %w", err)
		}
	}
	return out.Flush()
}
