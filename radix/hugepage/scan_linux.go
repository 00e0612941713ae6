package hugepage

import "os"

// minSmall is the number of small pages in memory, of the 512 of a range, from which it is
// collapsed. A collapse adds the rest, which Go's scavenger may have just given back.
const minSmall = Size / 4096 * 7 / 8

// From linux/fs.h, since Linux 6.7.
const (
	pagemapScan   = 0xc0606610 // _IOWR('f', 16, struct pm_scan_arg), 96 bytes
	pageIsPresent = 1 << 3
	pageIsHuge    = 1 << 6
)

// pageScan is struct pm_scan_arg, with room for its result: small pages in memory.
type pageScan struct {
	size, flags, start, end, walked uint64
	vector, length, maxPages        uint64
	inverted, mask, anyOf, returned uint64

	regions [1024]region // 24 KiB
}

// region is struct page_region: neighbouring pages of the same kind.
type region struct{ start, end, categories uint64 }

func newPageScan() *pageScan {
	return &pageScan{size: 96, length: 1024, inverted: pageIsHuge, mask: pageIsHuge | pageIsPresent}
}

// smallRanges returns the ranges of the heap that are worth a collapse, each of at most
// perCall, by address. Before Linux 6.7 it finds none.
func smallRanges() []span {
	if !available() {
		return nil
	}
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	defer pagemap.Close()
	var found []span
	scan := newPageScan()
	for _, s := range heap() {
		found = scan.appendSmall(found, pagemap.Fd(), s.whole())
	}
	return found
}

// appendSmall appends the ranges of s that have minSmall small pages in memory.
func (p *pageScan) appendSmall(found []span, fd uintptr, s span) []span {
	var current, pages uintptr
	count := func(start, end uintptr) {
		if r := start &^ (Size - 1); r != current {
			current, pages = r, 0
		}
		before := pages
		pages += (end - start) / 4096
		if before < minSmall && pages >= minSmall {
			found = join(found, span{current, current + Size})
		}
	}
	p.start, p.end = uint64(s.start), uint64(s.end)
	for p.start < p.end {
		n, err := p.call(fd)
		if err != nil {
			return found
		}
		for _, r := range p.regions[:n] {
			for at, end := uintptr(r.start), uintptr(r.end); at < end; {
				next := min(end, at&^(Size-1)+Size)
				count(at, next)
				at = next
			}
		}
		p.start = p.walked
	}
	return found
}

// join appends s, to the last span if that ends at s and has room in a call.
func join(spans []span, s span) []span {
	if n := len(spans); n > 0 {
		if last := &spans[n-1]; last.end == s.start && last.end-last.start < perCall {
			last.end = s.end
			return spans
		}
	}
	return append(spans, s)
}
