package upstream

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestJoinedCancelersCancelOneWay(t *testing.T) {
	var a, b Canceler
	a.Join(&b)
	b.Cancel()
	assert.False(t, a.Canceled())
	b.Reset()
	a.Cancel()
	assert.True(t, b.Canceled())

	b.Reset()
	a.Join(&b)
	assert.True(t, b.Canceled(), "at once, where the cancel came before")

	a.Reset()
	b.Reset()
	a.Join(nil)
	a.Cancel()
	assert.False(t, b.Canceled())
}
