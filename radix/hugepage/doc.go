// Package hugepage backs the Go heap of this process with the kernel's transparent huge pages. A look-up in the block index is a
// chain of reads at random places, which with pages of 4 KiB miss the TLB as well as the cache: an index of 140 MiB answers 15 %
// sooner from huge pages; at 35 MiB, about the size of the measured CPU's last cache, no difference could be seen. Most servers
// have "madvise" in /sys/kernel/mm/transparent_hugepage/enabled, where only memory that asks gets pages of 2 MiB, and Go has not
// asked since 1.21.1.
//
// [Keeper.Run] has the kernel collapse what a large heap has in small pages (MADV_COLLAPSE), from Linux 6.7 on; before, elsewhere, and where
// an operator has set "never", it does nothing. For measurements, [Reserve] has what is allocated be huge from its first touch.
//
// # What it costs
//
// Go's scavenger gives back single pages of a huge one, which splits it. In memory that is advised with MADV_HUGEPAGE, khugepaged fills such
// holes again (16 MiB in ten seconds by default), and Go, which takes them for given back, never gives them back again: a router that needed
// 100 MiB went from 100 to 250 in five minutes of mixed requests, and kept most of it when all was quiet. So a router's heap is not advised;
// khugepaged leaves it alone unless the setting is "always". Run collapses only ranges that are 7/8 in memory, and so adds at most a
// seventh to them.
//
// # Concurrency
//
// All functions may be called from any goroutine. None belongs on the path of a request but [Keeper.Stats]: they read /proc, and a
// collapse copies 2 MiB.
//
// # Errors
//
// There are none to handle: memory that the kernel does not make huge stays as it is and works as before. [Setting] and
// [Keeper.Stats] tell.
package hugepage
