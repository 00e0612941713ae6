//go:build race

package turns

// A router's start fills the race detector's shadow of the tables, which takes longer than many a
// test: they are smaller there.
const (
	slotBits  = 13
	markSlots = 1 << 15
)
