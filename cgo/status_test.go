package cgo_test

import (
	"testing"

	"github.com/warmpath/warmpath/cgo"
)

func TestStatusHasWords(t *testing.T) {
	seen := map[string]cgo.StatusError{}
	for s := cgo.ErrNotFound; s <= cgo.ErrInvalidParam; s++ {
		text := s.Error()
		if other, ok := seen[text]; ok {
			t.Errorf("statuses %d and %d have the same text %q", int(other), int(s), text)
		}
		seen[text] = s
	}
	if got, want := cgo.StatusError(-77).Error(), "nixl: status -77"; got != want {
		t.Errorf("StatusError(-77).Error() = %q, want %q", got, want)
	}
}
