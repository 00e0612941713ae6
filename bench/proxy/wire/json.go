package wire

import "bytes"

// Members calls f for each member of the JSON object at the start of b, with its name and its raw
// value, and returns the bytes behind the object. It looks at the top level only: JSON within
// brackets is not checked. A prompt of 12,000 token ids is 70 KB of digits; a tree of them would
// take a megabyte.
func Members(b []byte, f func(name, value []byte)) (rest []byte, ok bool) {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return nil, false
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return b[i+1:], true
	}
	for i < len(b) && b[i] == '"' {
		end := after(b, i)
		if end < 0 {
			return nil, false
		}
		name := b[i+1 : end-1]
		if i = space(b, end); i >= len(b) || b[i] != ':' {
			return nil, false
		}
		i = space(b, i+1)
		if end = after(b, i); end < 0 {
			return nil, false
		}
		f(name, b[i:end])
		if i = space(b, end); i >= len(b) {
			return nil, false
		}
		if b[i] == '}' {
			return b[i+1:], true
		}
		if b[i] != ',' {
			return nil, false
		}
		i = space(b, i+1)
	}
	return nil, false
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// after returns where the value that begins at i ends, or -1. It does not check JSON within
// brackets.
func after(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return afterString(b, i)
	case '[', '{':
		return afterNested(b, i)
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func afterString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' { // ends at the opening quote
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// afterNested steps over brackets. A list of numbers, which may be megabytes, has nothing in it but
// its end, which searches at memory speed find.
func afterNested(b []byte, i int) int {
	if n := bytes.IndexByte(b[i:], ']'); b[i] == '[' && n > 0 && flat(b[i+1:i+n]) {
		return i + n + 1
	}
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = afterString(b, i); i < 0 {
				return -1
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// flat reports whether the inside of a list has only numbers.
func flat(b []byte) bool {
	return bytes.IndexByte(b, '[') < 0 && bytes.IndexByte(b, '"') < 0 && bytes.IndexByte(b, '{') < 0
}
