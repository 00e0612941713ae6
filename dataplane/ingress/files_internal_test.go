package ingress

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestClientsFor(t *testing.T) {
	for files, want := range map[int]int{0: 0, 16: 4, 64: 16, 128: 48, 1024: 448, 1 << 20: 458752} {
		assert.Equal(t, want, clientsFor(files), "of %d files", files)
	}
}
