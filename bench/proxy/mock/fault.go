package mock

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// fault makes a worker answer later requests wrongly. Answers that have begun are not touched.
type fault byte

const (
	healthy fault = iota
	closes        // ends the connection instead of an answer, as a process does that was killed
	busy          // answers 503
)

var faults = map[string]fault{"none": healthy, "close": closes, "busy": busy}

// setFault is /bench/fault?kind=KIND. Requests of the bench itself are answered under any fault.
func (w *worker) setFault(query []byte) []byte {
	v, err := url.ParseQuery(string(query))
	if err != nil {
		return w.problem(400, err.Error())
	}
	f, ok := faults[v.Get("kind")]
	if !ok {
		return w.problem(400, "the kind is one of "+strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
	}
	w.fault = f
	return w.says("{}")
}

// fail answers as the fault has it; false where there is none.
func (k *conn) fail() bool {
	switch k.worker.fault {
	case closes:
		k.close()
	case busy:
		k.finish(k.worker.problem(503, "busy"))
	default:
		return false
	}
	k.worker.stats.Faulty++
	return true
}
