//go:build !race

package sim

import "testing"

func TestMatchDoesNotAllocate(t *testing.T) {
	c := newCache(16, &recorder{page: 16})
	prompt := sequence(0, 4_096)
	c.insert(domain{}, prompt)
	c.insert(domain{}, sequence(0, 8_192))
	if n := testing.AllocsPerRun(100, func() {
		c.match(domain{}, prompt)
		c.peek(domain{}, prompt)
	}); n != 0 {
		t.Errorf("match and peek allocate %v times, want 0", n)
	}
}

// TestLoadDoesNotAllocate: at a high time scale a decode step's bookkeeping runs thousands of
// times a second.
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
