package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// naiveFetch reads a whole answer to a fetch: the present pages and their bytes; false for a
// malformed answer.
func naiveFetch(raw []byte, pages, size int) (found [][]byte, ok bool) {
	if len(raw) < headerBytes+4+pages {
		return nil, false
	}
	h := header{binary.LittleEndian.Uint32(raw), raw[4], raw[5], binary.LittleEndian.Uint16(raw[6:]), binary.LittleEndian.Uint64(raw[8:])}
	body := raw[headerBytes:]
	if h.op != opFetch || h.status != 0 || h.seq != 1 || h.length > maxBody || int(binary.LittleEndian.Uint32(body)) != pages {
		return nil, false
	}
	data := body[4+pages:]
	length := 4 + pages
	for _, flag := range body[4 : 4+pages] {
		if flag != 1 {
			found = append(found, nil)
			continue
		}
		length += size
		if len(data) < size {
			return nil, false
		}
		found, data = append(found, data[:size]), data[size:]
	}
	return found, int(h.length) == length
}

// FuzzFetchAnswer compares link.fetch with naiveFetch on any answer of a peer.
func FuzzFetchAnswer(f *testing.F) {
	const pages, size = 5, 24
	good := func(flags ...byte) []byte {
		body := append(binary.LittleEndian.AppendUint32(nil, pages), flags...)
		for i := range bytes.Count(flags, []byte{1}) {
			body = append(body, bytes.Repeat([]byte{byte(i + 1)}, size)...)
		}
		return append(header{length: uint32(len(body)), op: opFetch, seq: 1}.append(nil), body...)
	}
	f.Add(good(1, 1, 1, 1, 1), uint8(0))
	f.Add(good(0, 1, 0, 1, 2), uint8(8))
	f.Add(good(0, 0, 0, 0, 0), uint8(0))
	f.Add(good(1, 1, 1, 1, 1)[:60], uint8(31))
	f.Add(good(1, 1, 1, 1), uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, unwanted uint8) {
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.CopyN(io.Discard, far, int64(headerBytes+len((&pageRequest{hashes: make([]proto.Hash, pages)}).encode())))
			_, _ = far.Write(raw)
			far.Close()
		}()
		l := &link{conn: near}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var came [pages][]byte
		told := 0
		got, err := l.fetch(ctx, &pageRequest{bytes: size, hashes: make([]proto.Hash, pages)}, func(i int, here bool) []byte {
			if told++; i != told-1 {
				t.Fatalf("page %d is told of after %d others", i, told-1)
			}
			if !here || unwanted>>i&1 == 1 {
				return nil
			}
			came[i] = make([]byte, size)
			return came[i]
		})
		near.Close()
		<-done
		want, ok := naiveFetch(raw, pages, size)
		if (err == nil) != ok {
			t.Fatalf("fetch = %v, and the naive reader says %v", err, ok)
		}
		if err != nil {
			return
		}
		n := 0
		for i := range want {
			if unwanted>>i&1 == 1 {
				want[i] = nil
			}
			if want[i] != nil {
				n++
			}
			if !bytes.Equal(want[i], came[i]) {
				t.Errorf("page %d is %x, want %x", i, came[i], want[i])
			}
		}
		if got != n {
			t.Errorf("%d pages have come, want %d", got, n)
		}
	})
}

// A page whose slot was dropped is skipped, and the pages behind it arrive.
func TestFetchPastAPageWithoutRoom(t *testing.T) {
	a, b := pair(t, nil)
	on, here := dialTier(t, a, "m"), dialTier(t, b, "m")
	hashes := on.store(1, 16)
	here.set(hashes[3:5], []uint64{0, testTokens}, nil, false) // another engine writes these, and they have no room for the pull
	here.finds("from the peer", 16-2, append(hashes[:3:3], hashes[5:]...), patience)
	peer, ns := b.peers.connected()[0], uint32(0)
	b.peers.pull(peer, ns, hashes, nil, false)
	b.peers.incoming.await(ns, hashes, patience)
	pages := here.get(hashes, patience)
	for i, page := range pages {
		if i == 3 || i == 4 {
			continue
		}
		if !bytes.Equal(page, pageBytes(1<<32+uint64(i))) {
			t.Errorf("page %d is %x…", i, page[:min(len(page), 16)])
		}
	}
	if n := b.Stats().PullFailures; n > 0 {
		t.Errorf("%d pulls failed", n)
	}
}
