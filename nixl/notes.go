package nixl

import (
	"context"
	"fmt"
	"time"
)

const (
	// notesTick is how often messages are looked for while somebody waits; the library has nothing to wait on.
	notesTick = 200 * time.Microsecond
	// notesSlowTick is for who has waited notesSlowAfter already: 500 looks a second are 1 % of a core.
	notesSlowTick  = 2 * time.Millisecond
	notesSlowAfter = 50 * time.Millisecond
)

// Receive waits for messages from peers and takes all that have come. A message goes to one caller. The owner keeps none: what nobody receives stays
// in the library, without a bound there.
func (a *Agent) Receive(ctx context.Context) ([]Note, error) {
	begin := time.Now()
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-a.ended:
			return nil, ErrClosed
		case <-tick.C:
		}
		var notes []Note
		var err error
		if closed := a.do(func(o *owner) { notes, err = o.engine.notes() }); closed != nil {
			return nil, closed
		}
		if err != nil {
			return nil, fmt.Errorf("cannot receive messages: %w", err)
		}
		if len(notes) > 0 {
			return notes, nil
		}
		if time.Since(begin) > notesSlowAfter {
			tick.Reset(notesSlowTick)
		} else {
			tick.Reset(notesTick)
		}
	}
}
