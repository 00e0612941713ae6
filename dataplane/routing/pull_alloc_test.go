//go:build !race

package routing_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// deaf hears hints and keeps nothing.
type deaf struct{ heard int }

func (d *deaf) Hint(routing.PullHint) { d.heard++ }

// A request with pages to pull costs no more memory than any other.
func TestHintsDoNotAllocate(t *testing.T) {
	f, d := newFleet(t, tiny(), tiny()), &deaf{}
	r := f.between(d, 10e9, routing.TierMatch{Place: 1, Open: true}, routing.TierMatch{Place: 2, Open: true}, routing.TierMatch{Place: 3, Tokens: 4000})
	f.linked(r, 3, 10e9)
	p := prompt(tokens(1, 4001))
	once := func() {
		decision, err := r.Pick(&f.scratch, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Withdraw(r.Dispatch(&f.scratch, p, &decision))
	}
	for range 50 { // the first ones allocate more
		once()
	}
	hints, stores := r.Pulls, r.Tiers
	r.Pulls, r.Tiers = nil, nil
	plain := testing.AllocsPerRun(100, once) // the index's memory for a new prompt
	r.Pulls, r.Tiers = hints, stores
	heard := d.heard
	if n := testing.AllocsPerRun(100, once); n != plain {
		t.Errorf("a choice with a hint allocates %v times, and one without %v times", n, plain)
	}
	if d.heard-heard < 100 {
		t.Errorf("%d hints were given", d.heard-heard)
	}
}
