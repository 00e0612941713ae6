package kvevent

// fields is a set of an event's mandatory fields.
type fields uint8

const (
	hasHashes fields = 1 << iota
	hasTokens
	hasBlockSize
)

// required returns the fields that every release sends for kind k.
func required(k Kind) fields {
	switch k {
	case Stored:
		return hasHashes | hasTokens
	case Removed:
		return hasHashes
	}
	return 0
}

// mapEvent reads an event of SGLang 0.5.20 and later or of vLLM: named fields, one of them the
// type.
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
		if !r.isName() {
			r.skip()
			b.unknown(r)
			continue
		}
		seen |= b.field(r, e, r.name())
	}
	if want := required(kind); seen&want != want {
		r.fail()
	}
	if kind == Stored && seen&hasBlockSize == 0 {
		e.inferSize(r)
	}
}

// mapKind finds the type among n pairs and does not move r. Both engines send the type first,
// but a map may contain it anywhere.
func mapKind(r *reader, n int) Kind {
	at := *r
	for i := 0; i < n && !at.bad; i++ {
		if !at.isName() {
			at.skip()
			at.skip()
			continue
		}
		if string(at.name()) == "type" {
			kind := kindOf(at.name())
			r.bad = at.bad
			return kind
		}
		at.skip()
	}
	r.fail()
	return 0
}

// field reads one named field of e. A name that kind does not have counts as unknown.
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
		b.hashes.read(r, e)
		return hasHashes
	case "medium":
		b.medium(r, e)
	case "group_idx":
		e.group(r)
	case "locality":
		e.Locality = b.label(r)
	case "ownership":
		e.Ownership = b.label(r)
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
		b.tokens.read(r, e)
		return hasTokens
	case "block_size":
		if e.blockSize(r) {
			return hasBlockSize
		}
	case "lora_id":
		e.loraID(r)
	case "lora_name":
		e.LoRAName = r.optStr()
	case "cache_salt":
		e.CacheSalt = r.optStr()
	case "session_id":
		e.SessionID = b.label(r)
	case "extra_keys":
		b.hashes.extraKeys(r, e)
	case "extra_key":
		e.extraKey(r)
	case "kv_cache_spec_kind":
		e.SpecKind = b.label(r)
	case "kv_cache_spec_sliding_window":
		b.slidingWindow(r, e)
	default:
		b.unknown(r)
	}
	return 0
}

// arrayEvent reads an event of SGLang up to 0.5.18 or of an older vLLM: the tag, then fields by
// position.
func (b *Batch) arrayEvent(r *reader) {
	start := r.p
	n := r.array()
	if n == 0 {
		r.fail()
	}
	kind := kindOf(r.name())
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

// storedArray reads the elements after the tag of a store of n elements. SGLang 0.5.18 ends
// with a map of optionals, where vLLM continues by position.
func (b *Batch) storedArray(r *reader, e *Event, n int) {
	if n < 4 {
		r.fail()
		return
	}
	b.hashes.read(r, e)
	e.parent(r)
	b.tokens.read(r, e)
	if n == 4 || !e.blockSize(r) {
		e.inferSize(r)
	}
	for i := 5; i < n && !r.bad; i++ {
		switch i {
		case 5:
			e.loraID(r)
		case 6:
			b.medium(r, e)
		case 7:
			b.saltOrLoRA(r, e)
		case 8:
			b.hashes.extraKeys(r, e)
		case 9:
			e.group(r)
		case 10:
			e.SpecKind = b.label(r)
		case 11:
			b.slidingWindow(r, e)
		default:
			b.unknown(r)
		}
	}
}

// saltOrLoRA reads the eighth element: SGLang's map of optionals or vLLM's LoRA name.
func (b *Batch) saltOrLoRA(r *reader, e *Event) {
	if !r.isMap() {
		e.LoRAName = r.optStr()
		return
	}
	n := r.dict()
	for i := 0; i < n && !r.bad; i++ {
		switch {
		case !r.isName():
			r.skip()
			b.unknown(r)
		case string(r.name()) == "cache_salt":
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
	b.hashes.read(r, e)
	if n > 2 {
		b.medium(r, e)
	}
	if n > 3 {
		e.group(r)
	}
	b.rest(r, n-4)
}

// rest skips n elements of a later release.
func (b *Batch) rest(r *reader, n int) {
	for ; n > 0 && !r.bad; n-- {
		b.unknown(r)
	}
}
