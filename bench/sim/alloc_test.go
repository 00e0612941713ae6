//go:build !race

package sim

import "testing"

func TestMatchDoesNotAllocate(t *testing.T) {
	c := newCache(16, &recorder{page: 16})
	prompt := promptOf(0, 4_096, 0)
	c.insert(space{}, prompt)
	c.insert(space{}, promptOf(0, 8_192, 0))
	if n := testing.AllocsPerRun(100, func() {
		c.match(space{}, prompt)
		c.peek(space{}, prompt)
	}); n != 0 {
		t.Errorf("match and peek allocate %v times, want 0", n)
	}
}

// TestLoadDoesNotAllocate checks what runs thousands of times a second at a
// high time scale: a decode step's bookkeeping.
func TestLoadDoesNotAllocate(t *testing.T) {
	cfg := fast().withDefaults()
	k := newRank(0, &cfg, newFaults(), nil, nil)
	for range 8 {
		k.running = append(k.running, newTestRequest(sequence(0, 9), 5))
	}
	if n := testing.AllocsPerRun(100, func() { k.report.observe(false) }); n != 0 {
		t.Errorf("observe allocates %v times, want 0", n)
	}
}
