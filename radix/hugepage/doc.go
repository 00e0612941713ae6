// Package hugepage backs the Go heap with transparent huge pages. A look-up in the block index
// is a chain of reads at random addresses, which with pages of 4 KiB miss the TLB as well as
// the cache. An index of 140 MiB answers 15 % sooner from huge pages; at 35 MiB, about the size
// of the measured CPU's last cache, there is no difference. Most servers have "madvise" in
// /sys/kernel/mm/transparent_hugepage/enabled: only memory that asks gets pages of 2 MiB, and
// Go has not asked since 1.21.1.
//
// [Collapser.Run] has the kernel collapse the small pages of a large heap (MADV_COLLAPSE), from
// Linux 6.7 on. Before, elsewhere, and where an operator has set "never", it does nothing. For
// measurements, [Reserve] makes new memory huge from its first touch.
//
// # Cost
//
// Go's scavenger gives back single pages of a huge page, which splits it. In memory advised
// with MADV_HUGEPAGE, khugepaged fills such holes again (16 MiB in ten seconds by default), and
// Go, which counts them as given back, never gives them back again: a router that needed 100
// MiB went from 100 to 250 in five minutes of mixed requests, and kept most of it. So a
// router's heap is not advised, and khugepaged leaves it alone unless the setting is "always".
// Run collapses only ranges that are 7/8 in memory, and so adds at most a seventh to them.
//
// # Concurrency
//
// All functions may be called from any goroutine. Only [Collapser.HugeBytes] is for the request
// path: the others read /proc, and a collapse copies 2 MiB.
//
// # Errors
//
// There are none: memory that the kernel does not make huge works as before. [Setting] and
// [Collapser.HugeBytes] tell.
package hugepage
