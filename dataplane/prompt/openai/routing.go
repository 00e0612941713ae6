package openai

import "strconv"

// Routing holds the fields that name a request, part prompt caches, or choose a worker.
type Routing struct {
	// RID is the request id that the client chose, RIDs the list of a batch. WholeRID reports that
	// a worker may get it (see [IsWholeRID]). The router's own id replaces others.
	RID      string
	RIDs     []string
	WholeRID bool

	// LoRA, CacheSalt and ExtraKey part the caches of equal prompts. Lists (batches) read as their
	// first element.
	LoRA, CacheSalt, ExtraKey string
	// SessionID is session_id, or else session_params.id: the names of SGLang's own sessions.
	SessionID []byte
	// Opened reports that SessionID is session_params.id: one worker has opened the session, and
	// puts its history before the prompt.
	Opened bool
	// Session is the name of the request's session, and SessionBy the first field that has one.
	// Names of more than 512 bytes name nothing.
	Session   []byte
	SessionBy SessionField

	Priority    int
	HasPriority bool
	// Rank is routed_dp_rank, or else its old name data_parallel_rank.
	Rank    int
	HasRank bool
}

// maxRID is the longest name of a request. Each event of an answer repeats it.
const maxRID = 1 << 10

// readRID reads rid: a string, or for a batch a list of strings.
func (ro *Routing) readRID(d *document) {
	raw := d.raw(fieldRID)
	switch {
	case raw == nil:
	case raw[0] != '[':
		ro.RID = d.readString(fieldRID)
		ro.WholeRID = IsWholeRID(ro.RID)
		checkRID(d, ro.RID)
	default:
		ro.WholeRID = true
		_, _ = Elements(raw, 0, func(lo, hi int) {
			if raw[lo] != '"' {
				d.refuse(fieldRID, "must hold strings only", lo)
			} else if d.err == nil {
				ro.RIDs = append(ro.RIDs, d.stringOf(raw[lo:hi]))
				last := ro.RIDs[len(ro.RIDs)-1]
				ro.WholeRID = ro.WholeRID && IsWholeRID(last)
				checkRID(d, last)
			}
		})
		ro.WholeRID = ro.WholeRID && len(ro.RIDs) > 0
	}
}

func checkRID(d *document, id string) {
	if len(id) > maxRID {
		d.refuse(fieldRID, "must have at most "+strconv.Itoa(maxRID)+" bytes", 0)
	}
}

// IsWholeRID reports whether an id has a form of which none begins another one: that of a UUID,
// with hyphens or without, or of a response. SGLang 0.5.23 ends every request with an id that
// begins with that of a request which is aborted, or whose client has left: "req-1" would end
// "req-10", and "c" all that are called "chatcmpl-…".
func IsWholeRID(id string) bool {
	switch len(id) {
	case 32, 36:
		for i := range len(id) {
			hyphen := len(id) == 36 && (i == 8 || i == 13 || i == 18 || i == 23)
			if c := id[i]; hyphen != (c == '-') || !hyphen && hexDigit(c) < 0 {
				return false
			}
		}
		return true
	case ResponseIDLen:
		for i := range len(id) {
			if c := id[i]; c <= ' ' || c >= 0x7f {
				return false
			}
		}
		return id[:len(ResponsePrefix)] == ResponsePrefix
	}
	return false
}
