package responses

import (
	"container/list"
	"slices"
	"sync"
)

// Turn is a response that a worker stores, and the part of its conversation that came with it.
type Turn struct {
	// Worker is the URL of the worker. No other one has the response.
	Worker string
	// Previous is the id of the response before, "" for the first turn.
	Previous string
	// Input and Output are the raw values of these members; nil where they are not known.
	Input, Output []byte
}

const (
	// turnOverhead is the memory of a turn beside its bytes: entry, key, list and map.
	turnOverhead = 512
	// maxTurns bounds the turns of one conversation that are read for the next one.
	maxTurns = 4096
)

// Turns remembers turns, the last used ones, within a bound of memory. It may be used from any
// number of goroutines.
type Turns struct {
	mu    sync.Mutex
	limit int
	bytes int
	used  *list.List // of *storedTurn, the last used first
	byID  map[string]*list.Element
}

type storedTurn struct {
	id string
	Turn
}

func (t *storedTurn) size() int {
	return turnOverhead + len(t.id) + len(t.Worker) + len(t.Previous) + len(t.Input) + len(t.Output)
}

// NewTurns returns an empty table of at most limit bytes.
func NewTurns(limit int) *Turns {
	return &Turns{limit: limit, used: list.New(), byID: map[string]*list.Element{}}
}

// Put remembers a turn. It keeps copies of the turn's slices.
func (ts *Turns) Put(id string, t Turn) {
	stored := &storedTurn{id, t}
	if stored.size() > ts.limit/16 { // one conversation must not evict all others
		stored.Input, stored.Output = nil, nil
	}
	stored.Input, stored.Output = slices.Clone(stored.Input), slices.Clone(stored.Output)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.removeLocked(ts.byID[id])
	ts.byID[id] = ts.used.PushFront(stored)
	ts.bytes += stored.size()
	for ts.bytes > ts.limit {
		ts.removeLocked(ts.used.Back())
	}
}

// Forget removes the turn of an id.
func (ts *Turns) Forget(id string) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.removeLocked(ts.byID[id])
}

func (ts *Turns) removeLocked(e *list.Element) {
	if e == nil {
		return
	}
	t, _ := ts.used.Remove(e).(*storedTurn)
	delete(ts.byID, t.id)
	ts.bytes -= t.size()
}

// Worker returns the URL of the worker that stores a response, "" where that is not known.
func (ts *Turns) Worker(id string) string {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	e := ts.byID[id]
	if e == nil {
		return ""
	}
	t, _ := e.Value.(*storedTurn)
	return t.Worker
}

// History appends the inputs and outputs of the conversation up to and with the response id, the
// oldest first, to lists. whole is false where a part is not known. The bytes must not be changed.
func (ts *Turns) History(lists [][]byte, id string) (_ [][]byte, whole bool) {
	start := len(lists)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for range maxTurns {
		e := ts.byID[id]
		if e == nil {
			break
		}
		ts.used.MoveToFront(e) // earlier turns in front of later ones: they are of no use without
		t, _ := e.Value.(*storedTurn)
		if t.Input == nil || t.Output == nil {
			break
		}
		lists = append(lists, t.Output, t.Input)
		if whole = t.Previous == ""; whole {
			break
		}
		id = t.Previous
	}
	slices.Reverse(lists[start:])
	return lists, whole
}

// Size returns the number of turns and the memory that they take.
func (ts *Turns) Size() (turns, bytes int) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.byID), ts.bytes
}
