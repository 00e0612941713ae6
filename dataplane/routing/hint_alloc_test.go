//go:build !race

package routing_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// deaf hears hints and keeps nothing.
type deaf struct{ heard int }

func (d *deaf) Hint(routing.Hint) { d.heard++ }

// A request whose pages are to be pulled costs no more memory than any other.
func TestHintsDoNotAllocate(t *testing.T) {
	f, d := newFleet(t, tiny(), tiny()), &deaf{}
	r := f.between(d, 10e9, routing.Shelf{Place: 1, Open: true}, routing.Shelf{Place: 2, Open: true}, routing.Shelf{Place: 3, Tokens: 4000})
	f.linked(r, 3, 10e9)
	p := prompt(tokens(1, 4001))
	once := func() {
		decision, err := r.Pick(&f.scratch, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Land(r.Dispatch(&f.scratch, p, &decision))
	}
	once()
	hints, stores := r.Hints, r.Stores
	r.Hints, r.Stores = nil, nil
	plain := testing.AllocsPerRun(100, once) // what a prediction of a new prompt takes of the index
	r.Hints, r.Stores = hints, stores
	heard := d.heard
	if n := testing.AllocsPerRun(100, once); n != plain {
		t.Errorf("a choice with a hint allocates %v times, and one without %v times", n, plain)
	}
	if d.heard-heard < 100 {
		t.Errorf("%d hints were given", d.heard-heard)
	}
}
