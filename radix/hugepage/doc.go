// Package hugepage backs the Go heap of this process with the kernel's transparent huge pages. A look-up in the block index is a
// chain of reads at random places, which with pages of 4 KiB miss the TLB as well as the cache: an index of 140 MiB answers 15 %
// sooner from huge pages; at 35 MiB, about the size of the measured CPU's last cache, no difference could be seen. Most servers
// have "madvise" in /sys/kernel/mm/transparent_hugepage/enabled, where only memory that asks gets pages of 2 MiB, and Go has not
// asked since 1.21.1.
//
// Two parts work together, on Linux; elsewhere, and where an operator has set "never", both do nothing:
//
//   - [Reserve], at start, makes the heap grow once into address space that is advised with MADV_HUGEPAGE before anything lies
//     there. What the program allocates from then on is huge from its first touch. The reservation itself takes no memory.
//   - [Keeper.Run] advises what the heap grows by later, and has the kernel collapse small pages that were touched before
//     (MADV_COLLAPSE, from Linux 6.7 on; before, khugepaged does that in its own time).
//
// # What it costs
//
// The kernel gives 2 MiB at a time. Go's scavenger gives back single pages of a huge one, which splits it, and khugepaged may fill
// such holes again (16 MiB in ten seconds by default): budget for the heap's peak. Run itself collapses only ranges that are 7/8 in
// memory, and so adds at most a seventh to them.
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
