package openai

import (
	"strings"
	"unicode/utf8"
)

// Routing holds the fields that name a request, part prompt caches, or choose a worker.
type Routing struct {
	// RID is the request id that the client chose, RIDs the list of a batch. HasRID is false for an
	// id that is null or empty, or that would abort other requests too: the router's own id
	// replaces it.
	RID    string
	RIDs   []string
	HasRID bool

	// LoRA, CacheSalt and ExtraKey part the caches of equal prompts. Lists (batches) read as their
	// first element.
	LoRA, CacheSalt, ExtraKey string
	// SessionID is session_id, or else session_params.id: the names of SGLang's own sessions.
	SessionID []byte
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

// readRID reads rid: a string, or for a batch a list of strings.
func (ro *Routing) readRID(d *document) *Error {
	raw := d.raw(fieldRID)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		var err *Error
		if ro.RID, err = d.readString(fieldRID, "rid"); err != nil {
			return err
		}
		if ro.HasRID = UsableRID(ro.RID); !ro.HasRID {
			ro.RID = ""
		}
		return nil
	}
	usable := true
	for i, more := skipSpace(raw, 1), true; more && raw[i] != ']'; {
		if raw[i] != '"' {
			return errAt("rid", "must hold strings only", d.spans[fieldRID].lo+i)
		}
		end, _, _ := scanString(raw, i+1)
		ro.RIDs = append(ro.RIDs, d.stringOf(raw[i:end]))
		usable = usable && UsableRID(ro.RIDs[len(ro.RIDs)-1])
		i, more, _ = nextMember(raw, end, ']')
		if more {
			i = skipSpace(raw, i)
		}
	}
	if ro.HasRID = usable && len(ro.RIDs) > 0; !ro.HasRID {
		ro.RIDs = nil
	}
	return nil
}

// UsableRID reports whether a worker can be told to abort the request by this id, and by it alone.
// SGLang 0.5.23 ignores an abort of the empty id, and aborts every request with an id that begins
// with the given one: the beginning of the router's own ids, or of those of responses, would end
// other clients' requests. An
// id with half a surrogate pair cannot be written in UTF-8; it reads as U+FFFD.
func UsableRID(id string) bool {
	begins := begins(id, ridPrefix, RIDLen) || begins(id, ResponsePrefix, ResponseIDLen)
	return id != "" && !begins && !strings.ContainsRune(id, utf8.RuneError)
}

// begins reports whether an id is the beginning of ids of that prefix and length.
func begins(id, prefix string, length int) bool {
	return len(id) < length && strings.HasPrefix(id, prefix[:min(len(id), len(prefix))])
}

// readRank reads the data-parallel rank that the client asks for.
func (ro *Routing) readRank(d *document) (err *Error) {
	ro.Rank, ro.HasRank, err = d.readInt(fieldRank, "routed_dp_rank")
	if err != nil || ro.HasRank {
		return err
	}
	ro.Rank, ro.HasRank, err = d.readInt(fieldOldRank, "data_parallel_rank")
	return err
}
