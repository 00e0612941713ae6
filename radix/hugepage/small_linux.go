package hugepage

import "os"

// enough is the small pages in memory, of the 512 of a range, from which it is collapsed. The rest is added to what the process
// takes, and may be what Go's scavenger has just given back.
const enough = Size / 4096 * 7 / 8

// From linux/fs.h, since Linux 6.7.
const (
	pagemapScan   = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg), 96 bytes
	pageIsPresent = 1 << 3
	pageIsHuge    = 1 << 6
)

// query is struct pm_scan_arg, with room for what it finds: pages in memory that are not huge.
type query struct {
	size, flags, start, end, walked uint64
	vector, length, maxPages        uint64
	inverted, mask, anyOf, returned uint64

	regions [1024]region // 24 KiB
}

// region is struct page_region: neighbouring pages of the same kind.
type region struct{ start, end, categories uint64 }

func newQuery() *query {
	return &query{size: 96, length: 1024, inverted: pageIsHuge, mask: pageIsHuge | pageIsPresent}
}

// smallRanges returns the ranges of the heap that are worth a collapse, each of perCall at most, in order of address. Before Linux 6.7 it
// finds none.
func smallRanges() []span {
	if !asked() {
		return nil
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	defer pagemap.Close()
	var found []span
	q := newQuery()
	for _, s := range heap() {
		found = q.small(found, pagemap.Fd(), s.whole())
	}
	return found
}

// small appends the ranges of s that have enough small pages in memory.
func (q *query) small(found []span, fd uintptr, s span) []span {
	var current, pages uintptr
	count := func(start, end uintptr) {
		if r := start &^ (Size - 1); r != current {
			current, pages = r, 0
		}
		before := pages
		pages += (end - start) / 4096
		if before < enough && pages >= enough {
			found = join(found, span{current, current + Size})
		}
	}
	q.start, q.end = uint64(s.start), uint64(s.end)
	for q.start < q.end {
		n, err := q.call(fd)
		if err != nil {
			return found
		}
		for _, r := range q.regions[:n] {
			for at, end := uintptr(r.start), uintptr(r.end); at < end; {
				next := min(end, at&^(Size-1)+Size)
				count(at, next)
				at = next
			}
		}
		q.start = q.walked
	}
	return found
}

// join appends s, to the last of spans where that ends at s and has room in a call.
func join(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end == s.start && spans[n-1].end-spans[n-1].start < perCall {
		spans[n-1].end = s.end
		return spans
	}
	return append(spans, s)
}
