package dataplane

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/resident"
	"github.com/warmpath/warmpath/radix/hugepage"
)

// reserveHugePages makes room in huge pages for the index and what else the router will hold. It returns nil where the operator does
// not want that.
func reserveHugePages(cfg Config) *hugepage.Keeper {
	if !cfg.HugePages {
		return nil
	}
	reserved := hugepage.Reserve(hugepage.DefaultReserve)
	cfg.Log.Info("huge pages for the heap", "kernel", hugepage.Setting(), "reserved_bytes", reserved)
	return &hugepage.Keeper{}
}

// startTakes is when all that a router does once has been done.
const startTakes = 2 * time.Second

// trimOnceStarted gives back what of the program only the start needed: most of it, see package resident. The function that it returns
// calls that off.
func trimOnceStarted() (stop func() bool) {
	return time.AfterFunc(startTakes, func() { resident.Trim() }).Stop
}
