package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

const (
	// maxNamespaces bounds names that have pages. Each change of weights brings new ones, so those
	// that no engine uses any more make room.
	maxNamespaces = 1024
	// maxKinds bounds kinds, as an announcement does.
	maxKinds = 256
	// wantedKinds is when kinds that no engine here uses make room: a router keeps 1,024 of all nodes.
	wantedKinds = 8
)

// ErrPageSize says that one namespace's pages would have two sizes, or one that fits no slab.
var ErrPageSize = errors.New("tier: page size")

// ErrNamespaces says that there are too many namespaces.
var ErrNamespaces = errors.New("tier: too many namespaces")

// namespace keeps apart what must never meet: model, weights, rank, form and type of the bytes. Its
// number is never used again, so that who holds one for long, as a pull does, cannot hit another's
// pages.
type namespace struct {
	spaceName

	name   string
	engine string // equal for all ranks and pools of an engine
	bytes  int    // of a page
	class  int32
	pages  int    // readable
	held   int    // entries, also those being filled
	open   int    // connections of engines
	left   uint64 // order in which the last connections ended
	kind   int    // place of its kind, -1: it is of none
	family string // what one clear drops: a model, of any weights, ranks and pools
	stamp  uint64 // of the family's last clear
	gone   bool   // its name is free or another's; its pages are dropped one after the other
}

// spaceName is what the backend in integrations/sglang writes as a namespace's name.
type spaceName struct {
	Model   string `json:"model"`
	Weights string `json:"weights"` // identity of the weights
	Rank    string `json:"rank"`
	PP      string `json:"pp"`
	CP      string `json:"cp"`
	Pool    string `json:"pool"`
	Form    string `json:"form"`
	DType   string `json:"dtype"`
	Tokens  int    `json:"tokens"`
	Heads   int    `json:"heads"`
	Own     string `json:"own"`
	// Kinds and Versions are the classes of SGLang's pools, and the versions of what wrote the pages.
	Kinds    []string `json:"kinds,omitempty"`
	Versions []string `json:"versions,omitempty"`
}

// read takes a name apart. One that the backend did not make has no fields.
func (n *spaceName) read(name string) {
	if json.Unmarshal([]byte(name), n) != nil || n.Tokens <= 0 || n.Model == "" {
		*n = spaceName{}
	}
}

// space returns the namespace of a name, which it makes where it is new.
func (x *index) space(name string, bytes int) (uint32, error) {
	if ns, ok := x.names[name]; ok {
		if have := x.spaces[ns].bytes; have != bytes {
			return 0, fmt.Errorf("%w: pages of %q have %d bytes here, and %d were announced", ErrPageSize, name, have, bytes)
		}
		return ns, nil
	}
	if bytes <= 0 || int64(bytes) > x.slab {
		return 0, fmt.Errorf("%w: %d bytes, and 1 to %d fit a slab of this tier (a larger --kv-tier has larger slabs)", ErrPageSize, bytes, x.slab)
	}
	for len(x.names) >= maxNamespaces || x.liveKinds() >= wantedKinds {
		if !x.forgetOldest() {
			break // all are used now
		}
	}
	if len(x.names) >= maxNamespaces || x.liveKinds() >= maxKinds {
		return 0, fmt.Errorf("%w: engines use %d", ErrNamespaces, len(x.names))
	}
	return x.makeSpace(name, bytes, 0), nil
}

// makeSpace makes a namespace of a name that has none.
func (x *index) makeSpace(name string, bytes, open int) uint32 {
	ns := x.next
	x.next++
	s := &namespace{name: name, bytes: bytes, class: x.classOf(bytes), kind: -1, open: open}
	s.read(name)
	s.engine, s.family = name, name
	if s.Model != "" {
		s.engine, s.family = s.base(), s.Own+"\x00"+s.Model
	}
	s.stamp = x.stamps[s.family]
	x.spaces[ns], x.names[name] = s, ns
	x.joinFeed(ns)
	return ns
}

// forgetOldest discards the namespaces of the engine that left longest ago.
func (x *index) forgetOldest() bool {
	open := map[string]bool{}
	for _, ns := range x.names {
		if s := x.spaces[ns]; s.open > 0 {
			open[s.engine] = true
		}
	}
	var victim *namespace
	for _, ns := range x.names {
		if s := x.spaces[ns]; !open[s.engine] && (victim == nil || s.left < victim.left) {
			victim = s
		}
	}
	if victim == nil {
		return false
	}
	x.discardEngine(victim.engine)
	return true
}

// discardEngine discards the namespaces of all ranks and pools of an engine: a kind that lost one
// of them would seem to be whole without it.
func (x *index) discardEngine(engine string) {
	for _, ns := range x.names {
		if x.spaces[ns].engine == engine {
			x.discard(ns)
		}
	}
}

// enter counts a connection of an engine.
func (x *index) enter(name string) {
	s := x.spaces[x.names[name]]
	s.open++
	if s.kind >= 0 {
		x.openKind(s.kind)
	}
}

// leave takes it back. An engine that retired the name has other weights now: with its last
// connection the pages are worth nothing, unless other engines here use the same.
func (x *index) leave(name string, retired bool) (discarded bool) {
	x.leaves++
	s := x.spaces[x.names[name]]
	s.open--
	s.left = x.leaves
	if s.kind >= 0 {
		x.openKind(s.kind)
	}
	if !retired {
		return false
	}
	for _, ns := range x.names {
		if o := x.spaces[ns]; o.engine == s.engine && o.open > 0 {
			return false
		}
	}
	x.discardEngine(s.engine)
	return true
}

// discard takes the name from a namespace, so that none of its pages is found any more. They stay
// until collect drops them.
func (x *index) discard(ns uint32) {
	s := x.spaces[ns]
	s.gone = true
	delete(x.names, s.name)
	x.leaveFeed(ns)
	x.gone++
	x.forget(ns)
}

// forget ends a discarded namespace that has no entries left.
func (x *index) forget(ns uint32) {
	if s := x.spaces[ns]; s.gone && s.held == 0 {
		delete(x.spaces, ns)
		x.gone--
	}
}

// clear discards the namespaces of a family. Those that engines use begin anew under their names.
func (x *index) clear(family string, stamp uint64) (pages int) {
	x.stamps[family] = stamp
	for _, ns := range x.names {
		s := x.spaces[ns]
		if s.family != family {
			continue
		}
		pages += s.pages
		x.discard(ns)
		if s.open > 0 {
			x.makeSpace(s.name, s.bytes, s.open)
		}
	}
	x.boundStamps()
	return pages
}

// boundStamps forgets the oldest clears of more models than there can be names.
func (x *index) boundStamps() {
	for len(x.stamps) > maxNamespaces {
		oldest, victim := uint64(math.MaxUint64), ""
		for family, stamp := range x.stamps {
			if stamp <= oldest {
				oldest, victim = stamp, family
			}
		}
		delete(x.stamps, victim)
	}
}

// serves reports whether a namespace's pages may be given.
func (x *index) serves(ns uint32) bool {
	s := x.spaces[ns]
	return s != nil && !s.gone
}

// collectStep bounds what is looked at under the lock at once: some 0.2 ms.
const collectStep = 2048

// collect drops pages of discarded namespaces from an entry on. It returns where to go on; below 0
// is the end. Pages that are being read or filled end when their readers and writers have.
func (x *index) collect(from int) (next int) {
	if x.gone == 0 {
		return -1
	}
	for e := from; e < len(x.entries); e++ {
		if e == from+collectStep {
			return e
		}
		n := &x.entries[e]
		if n.state == ready && n.pins == 0 && x.spaces[n.key.ns].gone {
			x.drop(int32(e))
		}
	}
	return -1
}

// space names pages of one model, rank and form.
func (t *Tier) space(name string, bytes int) (uint32, error) {
	t.mu.Lock()
	_, old := t.index.names[name]
	ns, err := t.index.space(name, bytes)
	t.mu.Unlock()
	if err == nil && !old {
		t.collect() // what made room
		select {
		case t.cold <- ns:
		default: // nobody takes them, or very many are new: then it is not warmed
		}
	}
	return ns, err
}

// current returns the namespace that has a name now, which an engine has opened: a clear gives it
// another.
func (t *Tier) current(name string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.index.names[name]
}

// known is a namespace that an engine here uses, and in which pages are of the same clear.
func (t *Tier) known(r *pageRequest) (ns uint32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ns, ok = t.index.names[r.name]
	if !ok {
		return 0, false
	}
	s := t.index.spaces[ns]
	return ns, s.bytes == int(r.bytes) && s.stamp == r.stamp
}

// spaceOf returns a request for pages of a namespace, without any. ok is false where the namespace
// has been discarded.
func (t *Tier) spaceOf(ns uint32) (r pageRequest, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.index.spaces[ns]
	if s == nil || s.gone {
		return r, false
	}
	return pageRequest{bytes: uint32(s.bytes), name: s.name, stamp: s.stamp}, true
}
