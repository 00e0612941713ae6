package nixl_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nixl"
)

// patience bounds every wait for an event that must come.
const patience = 3 * time.Minute

// pattern fills a page of 4 KiB with content unique to its seed and index.
func pattern(page []byte, seed, index uint64) {
	x := seed*0x9e3779b97f4a7c15 ^ index*0xbf58476d1ce4e5b9
	for i := 0; i+8 <= len(page); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(page[i:], x)
	}
}

const pageBytes = 4096

func fill(data []byte, seed uint64) {
	for i := 0; i+pageBytes <= len(data); i += pageBytes {
		pattern(data[i:i+pageBytes], seed, uint64(i/pageBytes))
	}
}

// awaitClosed waits for a channel to be closed.
func awaitClosed(tb testing.TB, event string, c <-chan struct{}) {
	tb.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		tb.Fatalf("%s: not in %v", event, patience)
	}
}

func isOpen(c <-chan struct{}) bool {
	select {
	case <-c:
		return false
	default:
		return true
	}
}

// newAgent is an agent with size bytes of memory; both end with the test.
func newAgent(tb testing.TB, f nixl.Fabric, cfg nixl.Config, size int) (*nixl.Agent, *nixl.Memory) {
	tb.Helper()
	agent, err := nixl.NewAgent(f, cfg)
	require.NoError(tb, err)
	mapping, err := nixl.NewMapping("test", size)
	require.NoError(tb, err)
	memory, err := agent.Register(mapping)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := mapping.Close(); err != nil {
			tb.Errorf("Mapping.Close: %v", err)
		}
		if err := memory.Close(); err != nil {
			tb.Errorf("Memory.Close: %v", err)
		}
		if err := agent.Close(); err != nil {
			tb.Errorf("Agent.Close: %v", err)
		}
		if mapping.Mapped() {
			tb.Error("the memory is mapped after the agent has ended")
		}
	})
	return agent, memory
}

// load loads the metadata of one agent into another.
func load(tb testing.TB, to, from *nixl.Agent) *nixl.Remote {
	tb.Helper()
	metadata, err := from.Metadata()
	require.NoError(tb, err)
	remote, err := to.Load(metadata)
	require.NoError(tb, err)
	return remote
}

func withDeadline(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func read(ctx context.Context, remote *nixl.Remote, memory *nixl.Memory, pieces ...nixl.Piece) (*nixl.Transfer, error) {
	return remote.Transfer(ctx, nixl.Read, memory, remote.Memories()[0], pieces)
}
