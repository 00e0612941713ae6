//go:build cgo && linux

package nixl_test

import (
	"bytes"
	"testing"

	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// realAgent is an agent of the real library, with size bytes of memory.
func realAgent(tb testing.TB, library string, size int) (*nixl.Agent, *nixl.Memory) {
	tb.Helper()
	lib, err := nixl.Open(library)
	if err != nil {
		tb.Fatal(err)
	}
	return newAgent(tb, lib, nixl.Config{Name: "test"}, size)
}

// TestTwoProcesses reads and writes between two processes with the real library.
func TestTwoProcesses(t *testing.T) {
	library := nixltest.Library(t)
	const size = 4 << 20
	p := startPeer(t, library, size, 7)
	agent, memory := realAgent(t, library, size)
	remote, err := agent.Load(p.metadata)
	if err != nil {
		t.Fatal(err)
	}
	theirs := remote.Memories()[0]
	ctx := withDeadline(t)
	if _, err := remote.Transfer(ctx, nixl.Read, memory, theirs, []nixl.Piece{{Len: size}}); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, size)
	fill(want, 7)
	if !bytes.Equal(memory.Bytes(), want) {
		t.Error("the bytes read are not those of the peer")
	}
	fill(memory.Bytes(), 8)
	if _, err := remote.Transfer(ctx, nixl.Write, memory, theirs, []nixl.Piece{{Len: size}}); err != nil {
		t.Fatal(err)
	}
	if got := p.ask(t, "sum 4194304", "sum"); got != sum(memory.Bytes()) {
		t.Error("the peer does not have the bytes that were written")
	}
	t.Logf("%+v", agent.Stats())
}
