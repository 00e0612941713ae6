package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// Feed reads the changes of a store's pages; it is the source of announcements.
type Feed struct{ pages *pages }

// Follow has the store remember changes from now on. It returns the present position and a
// channel that has a value after changes. Without a reader the store spends nothing on them. It
// may be called again.
func (f Feed) Follow() (proto.Position, <-chan struct{}) {
	f.pages.mu.Lock()
	defer f.pages.mu.Unlock()
	return f.pages.index.changes.start(), f.pages.changed
}

// Kinds lists the kinds of pages. The order stays; new ones come last.
func (f Feed) Kinds() []proto.Kind {
	f.pages.mu.Lock()
	defer f.pages.mu.Unlock()
	own := f.pages.index.changes.kinds
	kinds := make([]proto.Kind, len(own))
	for i := range kinds {
		kinds[i] = own[i].Kind
	}
	return kinds
}

// Changes appends changes from a position on, up to the capacity of dst. next is the position
// after them, now the present one. ok is false where the changes are not remembered: the contents
// are then to be read again, as of now.
func (f Feed) Changes(dst []proto.Change, from proto.Position) (list []proto.Change, next, now proto.Position, ok bool) {
	f.pages.mu.Lock()
	defer f.pages.mu.Unlock()
	return f.pages.index.changes.read(dst, from)
}

// Contents appends pages from a place on, up to the capacity of dst. The first place is 0; a next
// below 0 is the end. A page that comes or goes meanwhile may be in the list or not: the changes
// since the first call correct it.
func (f Feed) Contents(dst []proto.Change, place int) (list []proto.Change, next int) {
	for place >= 0 && len(dst) < cap(dst) {
		f.pages.mu.Lock()
		dst, place = f.pages.index.changes.contents(dst, place)
		f.pages.mu.Unlock()
	}
	return dst, place
}
