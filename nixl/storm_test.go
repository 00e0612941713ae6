package nixl_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// TestStorm delays, fails and gives up requests at random while peers die, and checks that no
// byte is written to memory after it was settled.
func TestStorm(t *testing.T) {
	const readers, rounds, part = 6, 8, 16 * pageBytes
	c := newPair(t, nixl.Config{MaxDescriptors: 3, Timeout: 200 * time.Millisecond, AbandonTimeout: 300 * time.Millisecond}, readers*part)
	var late sync.WaitGroup
	end := make(chan struct{})
	c.net.OnPost(func(nixltest.Request) nixltest.Outcome {
		switch rand.IntN(60) {
		case 0:
			return nixltest.Outcome{PostErr: cgo.ErrBackend}
		case 1:
			return nixltest.Outcome{Until: end} // later than everything else
		case 2, 3, 4, 5:
			until := make(chan struct{})
			late.Go(func() {
				time.Sleep(rand.N(5 * time.Millisecond))
				close(until)
			})
			return nixltest.Outcome{Until: until}
		default:
			return nixltest.Outcome{}
		}
	})
	// Each outcome happens sooner or later, depending on chance and the speed of the machine.
	all := func() bool {
		s := c.mine.Stats()
		return s.Completed > 0 && s.Failed > 0 && s.Replacements > 0 && s.TimedOut > 0
	}
	limit := time.Now().Add(patience)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			for round := 0; round < rounds || !all() && time.Now().Before(limit); round++ {
				if err := c.stormRound(t, uint64(i*part), part); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	late.Wait()
	close(end)
	testkit.Await(t, "no transfer is abandoned", func() bool { return c.mine.Stats().AbandonedNow == 0 })
	if !all() {
		t.Errorf("Stats = %+v, want some of each", c.mine.Stats())
	}
}

var errStorm = errors.New("bytes are wrong")

// stormRound reads a part of the memory, page by page, and checks its bytes.
func (c *agentPair) stormRound(tb testing.TB, at uint64, part int) error {
	tb.Helper()
	metadata, err := c.theirs.Metadata()
	if err != nil {
		return err
	}
	remote, err := c.mine.Load(metadata)
	if err != nil {
		return err
	}
	mine := c.local.Bytes()[at:][:part]
	var pieces []nixl.Piece
	for i := 0; i < part; i += pageBytes {
		pieces = append(pieces, nixl.Piece{Local: at + uint64(i), Remote: at + uint64(part-pageBytes-i), Len: pageBytes})
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 20*time.Millisecond)
	defer cancel()
	moved, err := read(ctx, remote, c.local, pieces...)
	if err == nil {
		for i := 0; i < part; i += pageBytes {
			if !bytes.Equal(mine[i:][:pageBytes], c.peers.Bytes()[int(at)+part-pageBytes-i:][:pageBytes]) {
				return errStorm
			}
		}
	} else if moved != nil {
		if rand.IntN(2) == 0 {
			remote.Fail(errStorm) // a caller that gave up may declare the peer dead
		}
		awaitClosed(tb, "settled", moved.Settled())
	}
	marker := bytes.Repeat([]byte{0xa5}, part)
	copy(mine, marker)
	time.Sleep(rand.N(time.Millisecond))
	if !bytes.Equal(mine, marker) {
		return errStorm
	}
	return nil
}
