//go:build cgo && linux

package cgo_test

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/cgo"
)

// pages maps memory that C may keep an address of.
func pages(t *testing.T, size int) ([]byte, cgo.Region) {
	t.Helper()
	data, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data, cgo.Region{Addr: uint64(uintptr(unsafe.Pointer(&data[0]))), Len: uint64(size)}
}

// pair is an agent with memory and a peer with memory that it has loaded.
type pair struct {
	agent, peer  *cgo.Agent
	name         string // of the peer
	ours, theirs []byte
	local        cgo.Region
	remote       cgo.Region
}

func newPair(t *testing.T, name string, size int) *pair {
	t.Helper()
	lib := open(t)
	p := &pair{agent: create(t, lib, "ours"), peer: create(t, lib, name), name: name}
	p.ours, p.local = pages(t, size)
	p.theirs, p.remote = pages(t, size)
	for i := range p.theirs {
		p.theirs[i] = byte(i * 7)
	}
	require.NoError(t, p.agent.Register([]cgo.Region{p.local}))
	require.NoError(t, p.peer.Register([]cgo.Region{p.remote}))
	metadata, err := p.peer.Metadata()
	require.NoError(t, err)
	if got, err := p.agent.LoadPeer(metadata); err != nil || got != name {
		t.Fatalf("LoadPeer = %q, %v, want %q", got, err, name)
	}
	return p
}

func (p *pair) request(t *testing.T, op cgo.Op, local, remote []cgo.Region) cgo.Request {
	t.Helper()
	r, err := p.agent.CreateRequest(op, p.name, local, remote)
	require.NoError(t, err)
	return r
}

// whole is a request for all memory of the pair.
func (p *pair) whole(t *testing.T, op cgo.Op) cgo.Request {
	t.Helper()
	return p.request(t, op, []cgo.Region{p.local}, []cgo.Region{p.remote})
}

// TestThousandsOfDescriptors moves each byte on its own, in one call.
func TestThousandsOfDescriptors(t *testing.T) {
	const size = 20_000
	p := newPair(t, "fast", size)
	var local, remote []cgo.Region
	for i := range uint64(size) {
		local = append(local, cgo.Region{Addr: p.local.Addr + i, Len: 1})
		remote = append(remote, cgo.Region{Addr: p.remote.Addr + size - 1 - i, Len: 1})
	}
	r := p.request(t, cgo.Read, local, remote)
	require.NoError(t, p.agent.Post(r))
	for i, b := range p.ours {
		if b != p.theirs[size-1-i] {
			t.Fatalf("byte %d is %d, want %d", i, b, p.theirs[size-1-i])
		}
	}
	if err := p.agent.Release(r); err != nil {
		t.Error(err)
	}
}

func TestWriteReachesThePeer(t *testing.T) {
	p := newPair(t, "fast", 4096)
	if err := p.agent.Post(p.whole(t, cgo.Write)); err != nil || !bytes.Equal(p.ours, p.theirs) {
		t.Errorf("Post = %v; the memories are equal: %t", err, bytes.Equal(p.ours, p.theirs))
	}
}

func TestImpossibleRequests(t *testing.T) {
	p := newPair(t, "fast", 4096)
	beyond := cgo.Region{Addr: p.remote.Addr + 1, Len: 4096}
	tests := []struct {
		name          string
		local, remote []cgo.Region
		want          cgo.StatusError
	}{
		{"beyond the peer's memory", []cgo.Region{p.local}, []cgo.Region{beyond}, cgo.ErrBackend},
		{"nothing", nil, nil, cgo.ErrInvalidParam},
		{"one for two", []cgo.Region{p.local}, []cgo.Region{p.remote, p.remote}, cgo.ErrInvalidParam},
		{"no bytes", []cgo.Region{{}}, []cgo.Region{{}}, cgo.ErrInvalidParam},
	}
	for _, test := range tests {
		if _, err := p.agent.CreateRequest(cgo.Read, p.name, test.local, test.remote); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestWait ends waits in C by success, failure, timeout and wake-up.
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
		r := p.whole(t, cgo.Read)
		if err := p.agent.Post(r); !errors.Is(err, cgo.ErrInProgress) {
			t.Errorf("%s: Post = %v, want %v", test.peer, err, cgo.ErrInProgress)
		}
		var wake atomic.Uint32
		wake.Store(test.wake)
		var status [1]int32
		ended := p.agent.Wait([]cgo.Request{r}, status[:], test.timeout, &wake)
		if ended != test.ended || status[0] != test.status {
			t.Errorf("%s: Wait = %d with status %d, want %d with %d", test.peer, ended, status[0], test.ended, test.status)
		}
		if done := test.status == 0; done != bytes.Equal(p.ours, p.theirs) {
			t.Errorf("%s: the bytes have moved: %t, want %t", test.peer, !done, done)
		}
	}
}

func TestFailedPost(t *testing.T) {
	p := newPair(t, "reset", 4096)
	r := p.whole(t, cgo.Read)
	if err := p.agent.Post(r); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf("Post = %v, want %v", err, cgo.ErrBackend)
	}
}
