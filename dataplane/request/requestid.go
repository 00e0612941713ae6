package request

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

// requestID is the id by which a worker can abort an attempt. No id begins that of another request,
// also of another router, for SGLang aborts by prefix.
type requestID struct {
	rid   []byte
	field []byte // `"rid":"…"` where the router has chosen the id and the body takes it; else empty
	// header reports that the router has chosen the id, and the body does not take it.
	header bool
	kept   bool   // the client's own, or the client's list
	key    uint64 // random, of the router's own
	lo     uint32 // of the first of a list
}

func (id *requestID) reset() {
	*id = requestID{rid: id.rid[:0], field: id.field[:0]}
}

// keep takes the client's id.
func (id *requestID) keep(req *openai.Request) {
	id.reset()
	id.rid, id.kept = append(id.rid, req.RID...), true
}

// renew makes an id. A client's list gets one for each of its own.
func (id *requestID) renew(req *openai.Request) {
	id.reset()
	id.key, id.lo = rand.Uint64(), rand.Uint32()
	id.rid = openai.AppendRID(id.rid, id.key, id.lo)
	switch c := conversions[req.API]; {
	case c != nil && !c.takesRID:
		id.header = true
	case len(req.RIDs) > 0:
		id.field = openai.AppendRIDsField(id.field, id.key, id.lo, len(req.RIDs))
	default:
		id.field = openai.AppendRIDField(id.field, id.key, id.lo)
	}
}

// all returns the ids that the worker has, for an abort. It names the prompts of a batch rid_0,
// rid_1 and so on.
func (id *requestID) all(req *openai.Request) (ids []string) {
	switch {
	case len(id.rid) == 0 && len(req.RIDs) == 0:
		return nil
	case id.kept && len(req.RIDs) > 0:
		return slices.Clone(req.RIDs[:min(len(req.RIDs), maxAbortedPrompts)])
	case len(req.RIDs) > 0:
		for i := range min(len(req.RIDs), maxAbortedPrompts) {
			ids = append(ids, string(openai.AppendRID(nil, id.key, id.lo+uint32(i))))
		}
		return ids
	case !req.Batch:
		return []string{string(id.rid)}
	}
	for i := range min(req.Prompts, maxAbortedPrompts) {
		ids = append(ids, string(openai.AppendItemRID(nil, string(id.rid), i)))
	}
	return ids
}

// sentIDs are the requests that workers have, by the ids that clients may know: those that the
// workers got, and the names that clients have given, which may be the same for several.
type sentIDs struct {
	mu    sync.Mutex
	own   map[uint64]*exchange // by the random part of the router's id; guarded by mu
	named map[string]holders   // by the client's name, each of a list; guarded by mu
	round uint64               // number of the last abort; guarded by mu
}

// holders are the requests of a name. Nearly always there is one.
type holders struct {
	first *exchange
	more  []*exchange
}

// add notes an attempt that is about to be sent. It refuses one with a client's id that another
// request has.
func (f *sentIDs) add(x *exchange) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.id.kept {
		for name := range x.names() {
			if f.named[name].first != nil {
				return false
			}
		}
	} else {
		f.own[x.id.key] = x
	}
	for name := range x.names() {
		at := f.named[name]
		if at.first == nil {
			at.first = x
		} else {
			at.more = append(at.more, x)
		}
		f.named[name] = at
	}
	x.listed = true
	return true
}

// remove forgets an attempt. Only then may its exchange change.
func (f *sentIDs) remove(x *exchange) {
	if !x.listed {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x.listed = false
	if !x.id.kept {
		delete(f.own, x.id.key)
	}
	for name := range x.names() {
		at := f.named[name]
		if at.first == x && len(at.more) == 0 {
			delete(f.named, name)
			continue
		}
		if at.first == x {
			at.first, at.more = at.more[0], at.more[1:]
		} else if i := slices.Index(at.more, x); i >= 0 {
			at.more = slices.Delete(at.more, i, i+1)
		}
		f.named[name] = at
	}
}

// names are the names that the client has given its request.
func (x *exchange) names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if x.req.RID != "" {
			yield(x.req.RID)
			return
		}
		for _, name := range x.req.RIDs[:min(len(x.req.RIDs), maxAbortedPrompts)] {
			if !yield(name) {
				return
			}
		}
	}
}

// abort calls send for the requests that a client calls rid and may abort, with what the worker
// calls them: whole requests, or one prompt of a batch. It reports false, and sends nothing, where
// the abort of one prompt would end others of its batch.
func (f *sentIDs) abort(rid string, mayAbort func(*clientkey.Key) bool, send func(x *exchange, ids []string)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	var found []*exchange // each once; thousands may have one name
	add := func(x *exchange) {
		if x != nil && x.found != f.round && mayAbort(x.credential.key) {
			x.found = f.round
			found = append(found, x)
		}
	}
	if hi, ok := idKey(rid); ok {
		add(f.own[hi])
	}
	for name := rid; ; {
		at := f.named[name]
		add(at.first)
		for _, x := range at.more {
			add(x)
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 || len(name) < len(rid) {
			break
		}
		name = name[:i]
	}
	for _, x := range found {
		if i := x.promptOf(rid); i > 0 && len(x.req.RIDs) == 0 && x.req.Prompts > 10*i {
			return false // rid_1 begins rid_10
		}
	}
	for _, x := range found {
		ids := x.id.all(&x.req)
		if i := x.promptOf(rid); i >= 0 && i < len(ids) {
			send(x, ids[i:i+1])
		} else if i == wholeRequest {
			send(x, ids)
		}
	}
	return true
}

const (
	wholeRequest = -1 - iota
	noPrompt
)

// promptOf returns the prompt of a batch that rid names: by its place, wholeRequest for all of the
// request, noPrompt where it names none.
func (x *exchange) promptOf(rid string) int {
	if len(x.req.RIDs) > 0 {
		if i := slices.Index(x.req.RIDs, rid); i >= 0 {
			return i
		}
		if i := slices.Index(x.id.all(&x.req), rid); i >= 0 {
			return i
		}
		return noPrompt
	}
	for _, name := range []string{x.req.RID, string(x.id.rid)} {
		if name == "" {
			continue
		}
		if rid == name {
			return wholeRequest
		}
		digits, ok := strings.CutPrefix(rid, name+"_")
		if !ok || !x.req.Batch {
			continue
		}
		if i, err := strconv.Atoi(digits); err == nil && i >= 0 && i < x.req.Prompts && strconv.Itoa(i) == digits {
			return i
		}
	}
	return noPrompt
}

// idKey returns the random part of an id that a router has made.
func idKey(rid string) (uint64, bool) {
	if hi, ok := openai.RIDKey(rid); ok {
		return hi, true
	}
	if digestOf(rid) == "" {
		return 0, false
	}
	const digits = 16
	hi, err := strconv.ParseUint(rid[len(openai.ResponsePrefix)+digestLen:][:digits], 16, 64)
	return hi, err == nil
}
