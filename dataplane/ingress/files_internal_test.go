package ingress

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSharesOf: clients, their connections to pairs of workers, the reserve of both listeners and
// its operators' connections leave files for the rest of the process.
func TestSharesOf(t *testing.T) {
	for files, want := range map[int][2]int{
		0: {0, 64}, 16: {2, 2}, 64: {10, 4}, 128: {21, 8}, 256: {64, 8}, 1024: {298, 16}, 1 << 20: {305834, 64},
	} {
		clients, reserve := sharesOf(files)
		assert.Equal(t, want, [2]int{clients, reserve}, "of %d files", files)
		if files >= 128 {
			assert.Less(t, 3*clients+4*reserve, files, "of %d files", files)
		}
	}
}
