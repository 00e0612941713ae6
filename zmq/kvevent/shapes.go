package kvevent

// fields is the set of those fields of an event without which it means nothing.
type fields uint8

const (
	hasHashes fields = 1 << iota
	hasTokens
	hasBlockSize
)

// required returns what every release sends for kind k.
func required(k Kind) fields {
	switch k {
	case Stored:
		return hasHashes | hasTokens | hasBlockSize
	case Removed:
		return hasHashes
	}
	return 0
}

// mapEvent reads an event of SGLang 0.5.20 and later or of vLLM: field names and values, one of them the type.
func (b *Batch) mapEvent(r *reader) {
	start := r.p
	n := r.dict()
	kind := mapKind(r, n)
	if r.bad {
		return
	}
	if kind == 0 {
		b.UnknownEvents++
		r.p = start
		r.skip()
		return
	}
	e := b.add(kind)
	var seen fields
	for i := 0; i < n && !r.bad; i++ {
		if !r.isStr() { // A key that is not a name.
			r.skip()
			b.unknown(r)
			continue
		}
		seen |= b.field(r, e, r.str())
	}
	if want := required(kind); seen&want != want {
		r.fail()
	}
}

// mapKind finds the type among n pairs and leaves r where it is. Both engines send the type first; a map may hold it
// anywhere.
func mapKind(r *reader, n int) Kind {
	at := *r
	for i := 0; i < n && !at.bad; i++ {
		if !at.isStr() {
			at.skip()
			at.skip()
			continue
		}
		if string(at.str()) == "type" {
			kind := kindOf(at.str())
			r.bad = at.bad
			return kind
		}
		at.skip()
	}
	r.fail()
	return 0
}

// field reads the value of one named field of e. A name that means nothing for e's kind counts as unknown.
func (b *Batch) field(r *reader, e *Event, key []byte) fields {
	if string(key) == "type" {
		r.skip()
		return 0
	}
	if e.Kind == Cleared {
		b.unknown(r)
		return 0
	}
	switch string(key) {
	case "block_hashes":
		b.hashList(r, e)
		return hasHashes
	case "medium":
		e.medium(r)
	case "group_idx":
		e.group(r)
	case "locality":
		e.Locality = r.optStr()
	case "ownership":
		e.Ownership = r.optStr()
	default:
		if e.Kind == Stored {
			return b.storedField(r, e, key)
		}
		b.unknown(r)
	}
	return 0
}

// storedField reads the fields that only a store has.
func (b *Batch) storedField(r *reader, e *Event, key []byte) fields {
	switch string(key) {
	case "parent_block_hash":
		e.parent(r)
	case "token_ids":
		b.tokenList(r, e)
		return hasTokens
	case "block_size":
		e.blockSize(r)
		return hasBlockSize
	case "lora_id":
		e.loraID(r)
	case "lora_name":
		e.LoRAName = r.optStr()
	case "cache_salt":
		e.CacheSalt = r.optStr()
	case "session_id":
		e.SessionID = r.optStr()
	case "extra_keys":
		b.extraKeys(r, e)
	case "kv_cache_spec_kind":
		e.SpecKind = r.optStr()
	case "kv_cache_spec_sliding_window":
		e.slidingWindow(r)
	default:
		b.unknown(r)
	}
	return 0
}

// arrayEvent reads an event of SGLang up to 0.5.18 or of an older vLLM: the tag, then fields by position.
func (b *Batch) arrayEvent(r *reader) {
	start := r.p
	n := r.array()
	if n == 0 {
		r.fail()
	}
	kind := kindOf(r.str())
	switch {
	case r.bad:
		return
	case kind == 0:
		b.UnknownEvents++
		r.p = start
		r.skip()
		return
	}
	e := b.add(kind)
	switch kind {
	case Stored:
		b.storedArray(r, e, n)
	case Removed:
		b.removedArray(r, e, n)
	case Cleared:
		b.rest(r, n-1)
	}
}

// storedArray reads what follows the tag of a store of n elements. SGLang 0.5.18 ends with a map of optionals where vLLM
// goes on by position.
func (b *Batch) storedArray(r *reader, e *Event, n int) {
	if n < 5 {
		r.fail()
		return
	}
	b.hashList(r, e)
	e.parent(r)
	b.tokenList(r, e)
	e.blockSize(r)
	for i := 5; i < n && !r.bad; i++ {
		switch i {
		case 5:
			e.loraID(r)
		case 6:
			e.medium(r)
		case 7:
			b.saltOrLoRA(r, e)
		case 8:
			b.extraKeys(r, e)
		case 9:
			e.group(r)
		case 10:
			e.SpecKind = r.optStr()
		case 11:
			e.slidingWindow(r)
		default:
			b.unknown(r)
		}
	}
}

// saltOrLoRA reads the eighth element: SGLang's map of optionals or vLLM's LoRA name.
func (b *Batch) saltOrLoRA(r *reader, e *Event) {
	if c := r.peek(); c&0xf0 != fixMap {
		e.LoRAName = r.optStr()
		return
	}
	n := r.dict()
	for i := 0; i < n && !r.bad; i++ {
		switch {
		case !r.isStr():
			r.skip()
			b.unknown(r)
		case string(r.str()) == "cache_salt":
			e.CacheSalt = r.optStr()
		default:
			b.unknown(r)
		}
	}
}

func (b *Batch) removedArray(r *reader, e *Event, n int) {
	if n < 2 {
		r.fail()
		return
	}
	b.hashList(r, e)
	if n > 2 {
		e.medium(r)
	}
	if n > 3 {
		e.group(r)
	}
	b.rest(r, n-4)
}

// rest passes over n elements that a later release added.
func (b *Batch) rest(r *reader, n int) {
	for ; n > 0 && !r.bad; n-- {
		b.unknown(r)
	}
}
