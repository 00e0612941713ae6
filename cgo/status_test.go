package cgo_test

import (
	"testing"

	"github.com/warmpath/warmpath/cgo"
)

func TestStatusHasWords(t *testing.T) {
	seen := map[string]cgo.Status{}
	for s := cgo.StatusNotFound; s <= cgo.StatusInProgress; s++ {
		text := s.Error()
		if other, ok := seen[text]; ok {
			t.Errorf("statuses %d and %d have the same text %q", int(other), int(s), text)
		}
		seen[text] = s
	}
	if got, want := cgo.Status(-77).Error(), "nixl: status -77"; got != want {
		t.Errorf("Status(-77).Error() = %q, want %q", got, want)
	}
}
