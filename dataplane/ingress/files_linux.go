package ingress

import (
	"math"
	"syscall"
)

// fileLimit returns the number of files that this process may have open, 0 for any number.
func fileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
