package tokenizer

import "unsafe"

// view is b as a string without a copy. Callers in this package do not change b while the string is
// in use: a scratch only ever appends behind viewed bytes, and where append moves the bytes, the
// string keeps the old ones alive.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
