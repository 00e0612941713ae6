package nvml

import (
	"bytes"
	"encoding/json"
)

// Opt is a value that the driver may not be able to tell: a GPU without the feature, a driver without the call, a
// refusal. The zero value is not known, and is null in JSON, so that "0 errors" and "nobody knows" never look alike.
type Opt[T any] struct {
	Value T
	OK    bool
}

// Some is a known value.
func Some[T any](v T) Opt[T] { return Opt[T]{v, true} }

// Or is the value, or what stands for an unknown one.
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

// UnmarshalJSON reads what MarshalJSON writes.
func (o *Opt[T]) UnmarshalJSON(data []byte) error {
	*o = Opt[T]{}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil
	}
	if err := json.Unmarshal(data, &o.Value); err != nil {
		return err
	}
	o.OK = true
	return nil
}
