package nvml

import "encoding/json"

// Opt is a value that may be unknown: the GPU lacks the feature, the driver lacks the call, or
// refuses it. The zero value is unknown, and null in JSON, so that 0 errors and an unknown
// number of errors never look alike.
type Opt[T any] struct {
	Value T
	OK    bool
}

// Some is a known value.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Or is the value, or the given one in place of an unknown value.
func (o Opt[T]) Or(unknown T) T {
	if !o.OK {
		return unknown
	}
	return o.Value
}

// MarshalJSON writes the value, or null.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	if !o.OK {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}
