package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// sizes are the units of parseBytes.
var sizes = []struct {
	unit  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}}

var errSize = errors.New("bad size")

// parseBytes reads a size such as 8GiB, 512MiB, 1.5TB or 1048576.
func parseBytes(text string) (int64, error) {
	number, factor := strings.TrimSpace(text), 1.0
	for _, s := range sizes {
		if before, found := strings.CutSuffix(number, s.unit); found {
			number, factor = strings.TrimSpace(before), s.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0 && n*factor < 1<<50) {
		return 0, fmt.Errorf("%w %q: want a number with a unit, as in 8GiB or 512MiB", errSize, text)
	}
	return int64(n * factor), nil
}
