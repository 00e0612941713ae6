package proxy

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is a number of bytes that flags write as 300, 8k, 64k or 8m.
type Size int

// String implements pflag.Value.
func (s *Size) String() string {
	switch n := int(*s); {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "m"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "k"
	default:
		return strconv.Itoa(n)
	}
}

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	digits, unit := strings.ToLower(text), 1
	for suffix, n := range map[string]int{"k": 1 << 10, "m": 1 << 20} {
		if d, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = d, n
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 1<<30/unit {
		return fmt.Errorf("cannot read %q as a size: want a number of bytes, or with k or m", text)
	}
	*s = Size(n * unit)
	return nil
}

// Type implements pflag.Value.
func (s *Size) Type() string { return "bytes" }
