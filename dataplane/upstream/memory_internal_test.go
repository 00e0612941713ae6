package upstream

import "testing"

// A body of a power of two and its head fit memory of little more: not of twice as much. What is given back is of a size that is kept.
func TestMemoryHasRoomForAHead(t *testing.T) {
	for _, body := range []int{32 << 10, 64 << 10, 1 << 20, 64 << 20} {
		m := memoryOf(body + 500)
		if got := len(m.b); got < body+500 || got > body+headRoom {
			t.Errorf("a body of %d gets %d bytes", body, got)
		}
		m.release()
	}
	for size := keptInbound + 1; size < 1<<20; size += 997 {
		if got := len(memoryOf(size).b); got < size || got > 2*size+headRoom {
			t.Fatalf("%d bytes get %d", size, got)
		}
	}
	if got := len(memoryOf(65 << 20).b); got != 65<<20 {
		t.Errorf("what is not kept has %d bytes, want its own size", got)
	}
}
