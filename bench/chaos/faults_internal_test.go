package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOneFaultOfATarget: a fault does not begin while another one of its target goes on or has just ended, however late that is, and of each
// role one is away.
func TestOneFaultOfATarget(t *testing.T) {
	start := time.Now()
	away, here := &kind{away: true}, &kind{}
	begun := &entry{kind: away, role: front, target: 1, began: start}
	for at, ended := range map[time.Duration]time.Time{0: {}, time.Hour: {}, time.Minute + rest - 1: start.Add(time.Minute)} {
		begun.ended = ended
		for _, e := range []*entry{{kind: here, role: front, target: 1}, {kind: away, role: front, target: 1}, {kind: away, role: front}} {
			require.False(t, e.free([]*entry{begun}, start.Add(at)), "%v after %v", e, at)
		}
		for _, e := range []*entry{{kind: here, role: front}, {kind: away, role: hub, target: 1}} {
			require.True(t, e.free([]*entry{begun}, start.Add(at)), "%v after %v", e, at)
		}
	}
	begun.ended = start.Add(time.Minute)
	require.True(t, (&entry{kind: away, role: front, target: 1}).free([]*entry{begun}, start.Add(time.Minute+rest)))
}
