//go:build cgo && linux

package cgo_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/cgo"
)

// pages maps memory that C may keep an address of.
func pages(t *testing.T, size int) ([]byte, cgo.Region) {
	t.Helper()
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data, cgo.Region{Addr: uint64(uintptr(unsafe.Pointer(&data[0]))), Len: uint64(size)}
}

// pair is an agent with memory that knows a peer with memory.
type pair struct {
	lib          *cgo.NIXL
	mine, theirs cgo.Agent
	peer         string
	local        []byte
	remote       []byte
	from, to     cgo.Region
}

func newPair(t *testing.T, peer string, size int) *pair {
	t.Helper()
	lib := open(t)
	p := &pair{lib: lib, mine: create(t, lib, "mine"), theirs: create(t, lib, peer), peer: peer}
	p.local, p.from = pages(t, size)
	p.remote, p.to = pages(t, size)
	for i := range p.remote {
		p.remote[i] = byte(i * 7)
	}
	if err := lib.Register(p.mine, cgo.Host, []cgo.Region{p.from}); err != nil {
		t.Fatal(err)
	}
	if err := lib.Register(p.theirs, cgo.Host, []cgo.Region{p.to}); err != nil {
		t.Fatal(err)
	}
	metadata, err := lib.LocalMetadata(p.theirs)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := lib.LoadRemote(p.mine, metadata); err != nil || name != peer {
		t.Fatalf("LoadRemote = %q, %v, want %q", name, err, peer)
	}
	return p
}

func (p *pair) request(t *testing.T, job cgo.Job, local, remote []cgo.Region) cgo.Request {
	t.Helper()
	job.Peer = p.peer
	r, err := p.lib.CreateRequest(p.mine, &job, local, remote)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestThousandsOfDescriptors moves each byte on its own, in one call.
func TestThousandsOfDescriptors(t *testing.T) {
	const size = 20_000
	p := newPair(t, "fast", size)
	var local, remote []cgo.Region
	for i := range uint64(size) {
		local = append(local, cgo.Region{Addr: p.from.Addr + i, Len: 1})
		remote = append(remote, cgo.Region{Addr: p.to.Addr + size - 1 - i, Len: 1})
	}
	r := p.request(t, cgo.Job{Op: cgo.Read, Note: []byte("done\x00")}, local, remote)
	if err := p.lib.Post(p.mine, r); err != nil {
		t.Fatal(err)
	}
	for i, b := range p.local {
		if b != p.remote[size-1-i] {
			t.Fatalf("byte %d is %d, want %d", i, b, p.remote[size-1-i])
		}
	}
	got, err := p.lib.Telemetry(p.mine, r)
	if want := (cgo.Telemetry{Post: 2 * time.Microsecond, Transfer: 3 * time.Microsecond, Bytes: size, Descriptors: size}); err != nil || got != want {
		t.Errorf("Telemetry = %+v, %v, want %+v", got, err, want)
	}
	if err := p.lib.Notify(p.mine, p.peer, nil); err != nil {
		t.Fatal(err)
	}
	notes, err := p.lib.Notes(p.theirs)
	if err != nil || len(notes) != 2 || notes[0].Peer != "mine" || len(notes[0].Data)+len(notes[1].Data) != 5 {
		t.Errorf("Notes = %q, %v, want an empty one and done", notes, err)
	}
	if notes, err := p.lib.Notes(p.theirs); err != nil || len(notes) != 0 {
		t.Errorf("Notes again = %q, %v, want none", notes, err)
	}
	if err := p.lib.Release(p.mine, r); err != nil {
		t.Error(err)
	}
}

func TestWriteReachesThePeer(t *testing.T) {
	p := newPair(t, "fast", 4096)
	r := p.request(t, cgo.Job{Op: cgo.Write}, []cgo.Region{p.from}, []cgo.Region{p.to})
	if err := p.lib.Post(p.mine, r); err != nil || !bytes.Equal(p.local, p.remote) {
		t.Errorf("Post = %v; the peer's memory is as ours: %t", err, bytes.Equal(p.local, p.remote))
	}
}

func TestRequestsThatCannotBe(t *testing.T) {
	p := newPair(t, "fast", 4096)
	beyond := cgo.Region{Addr: p.to.Addr + 1, Len: 4096}
	tests := []struct {
		name          string
		local, remote []cgo.Region
		want          cgo.StatusError
	}{
		{"beyond the peer's memory", []cgo.Region{p.from}, []cgo.Region{beyond}, cgo.ErrBackend},
		{"nothing", nil, nil, cgo.ErrInvalidParam},
		{"one for two", []cgo.Region{p.from}, []cgo.Region{p.to, p.to}, cgo.ErrInvalidParam},
		{"no bytes", []cgo.Region{{}}, []cgo.Region{{}}, cgo.ErrInvalidParam},
	}
	for _, test := range tests {
		if _, err := p.lib.CreateRequest(p.mine, &cgo.Job{Peer: p.peer}, test.local, test.remote); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestWait looks at how a wait in C ends: by success, failure, time, or a wake-up.
func TestWait(t *testing.T) {
	tests := []struct {
		peer    string
		timeout time.Duration
		wake    uint32
		ended   int
		status  int32
	}{
		{"slow", time.Minute, 0, 1, 0},
		{"breaks", time.Minute, 0, 1, int32(cgo.ErrBackend)},
		{"never", 10 * time.Millisecond, 0, 0, int32(cgo.ErrInProgress)},
		{"never, without time", -1, 0, 0, int32(cgo.ErrInProgress)},
		{"never, woken", time.Hour, 1, 0, int32(cgo.ErrInProgress)},
	}
	for _, test := range tests {
		p := newPair(t, test.peer, 4096)
		r := p.request(t, cgo.Job{Op: cgo.Read}, []cgo.Region{p.from}, []cgo.Region{p.to})
		if err := p.lib.Post(p.mine, r); !errors.Is(err, cgo.ErrInProgress) {
			t.Errorf("%s: Post = %v, want %v", test.peer, err, cgo.ErrInProgress)
		}
		var wake atomic.Uint32
		wake.Store(test.wake)
		var status [1]int32
		ended := p.lib.Wait(p.mine, []cgo.Request{r}, status[:], test.timeout, &wake)
		if ended != test.ended || status[0] != test.status {
			t.Errorf("%s: Wait = %d with status %d, want %d with %d", test.peer, ended, status[0], test.ended, test.status)
		}
		if done := test.status == 0; done != bytes.Equal(p.local, p.remote) {
			t.Errorf("%s: the bytes have moved: %t, want %t", test.peer, !done, done)
		}
	}
}

func TestFailedPost(t *testing.T) {
	p := newPair(t, "reset", 4096)
	r := p.request(t, cgo.Job{Op: cgo.Read}, []cgo.Region{p.from}, []cgo.Region{p.to})
	if err := p.lib.Post(p.mine, r); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf("Post = %v, want %v", err, cgo.ErrBackend)
	}
	if err := p.lib.Status(p.mine, r); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf("Status = %v, want %v", err, cgo.ErrBackend)
	}
}
