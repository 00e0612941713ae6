package directory

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A request allocates nothing for its hint: buffers are reused.
func TestHintsDoNotAllocate(t *testing.T) {
	h, p := NewHintSender(&hintBus{}, nodeName), hinted(4096)
	through := func() {
		h.Hint(p)
		h.free <- <-h.full
	}
	for range maxQueuedHints {
		through()
	}
	assert.Zero(t, testing.AllocsPerRun(200, through))
}
