//go:build !linux

package hugepage

// Setting returns "": there are no huge pages.
func Setting() string { return "" }

// Reserve does nothing and returns 0.
func Reserve(int64) int64 { return 0 }

// Bytes returns 0.
func Bytes() int64 { return 0 }

func smallRanges() []span { return nil }

func collapse(span) {}
