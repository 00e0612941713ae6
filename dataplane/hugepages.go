package dataplane

import "github.com/warmpath/warmpath/radix/hugepage"

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
