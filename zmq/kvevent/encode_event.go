package kvevent

// appendArrayEvent appends e in the shape of SGLang up to 0.5.18.
func appendArrayEvent(dst []byte, e *Event, enc Encoding) []byte {
	switch e.Kind {
	case Stored:
		return appendStoredArray(dst, e, enc)
	case Removed:
		n := 2
		if enc >= SGLang0515 {
			n = 3
		}
		dst = appendStr(appendArray(dst, n), tagRemoved)
		dst = appendHashes(dst, e, enc)
		if enc >= SGLang0515 {
			dst = appendMedium(dst, e, enc)
		}
		return dst
	}
	return appendStr(appendArray(dst, 1), tagCleared)
}

func appendStoredArray(dst []byte, e *Event, enc Encoding) []byte {
	salted := enc == SGLang0518 && e.CacheSalt != nil
	n := 6
	if enc >= SGLang0515 {
		n++
	}
	if salted {
		n++
	}
	dst = appendStr(appendArray(dst, n), tagStored)
	dst = appendHashes(dst, e, enc)
	dst = appendParent(dst, e, enc)
	dst = appendTokens(dst, e)
	dst = appendInt(dst, int64(e.BlockSize))
	dst = appendOptInt(dst, e.LoRAID, e.HasLoRAID)
	if enc >= SGLang0515 {
		dst = appendMedium(dst, e, enc)
	}
	if salted {
		dst = appendStr(appendDict(dst, 1), "cache_salt")
		dst = appendStr(dst, e.CacheSalt)
	}
	return dst
}

// appendMapEvent appends e in the shape of SGLang 0.5.20 and later or of vLLM.
func appendMapEvent(dst []byte, e *Event, enc Encoding) []byte {
	m := mapWriter{dst: appendDict(dst, 0), head: len(dst)}
	m.dst = appendStr(m.key("type"), e.Kind.String())
	switch e.Kind {
	case Stored:
		m.stored(e, enc)
	case Removed:
		m.dst = appendHashes(m.key("block_hashes"), e, enc)
		m.medium(e, enc)
		if enc == VLLM032 {
			m.int("group_idx", int64(e.Group), e.HasGroup)
			m.str("locality", e.Locality)
			m.str("ownership", e.Ownership)
		}
	}
	return m.dst
}

// mapWriter counts the pairs of a map in its header while they are written, so that each
// optional field is tested once.
type mapWriter struct {
	dst  []byte
	head int // Offset of the header.
}

// key starts the next pair.
func (m *mapWriter) key(name string) []byte {
	m.dst[m.head]++
	return appendStr(m.dst, name)
}

// str writes an optional string: nil is left out.
func (m *mapWriter) str(name string, v []byte) {
	if v != nil {
		m.dst = appendStr(m.key(name), v)
	}
}

func (m *mapWriter) int(name string, v int64, ok bool) {
	if ok {
		m.dst = appendInt(m.key(name), v)
	}
}

// medium writes the tier: vLLM always has the key, SGLang only with a value.
func (m *mapWriter) medium(e *Event, enc Encoding) {
	if enc == VLLM032 || e.Medium != MediumNone {
		m.dst = appendMedium(m.key("medium"), e, enc)
	}
}

// stored writes a store's fields in the order of the engine's struct.
func (m *mapWriter) stored(e *Event, enc Encoding) {
	m.dst = appendHashes(m.key("block_hashes"), e, enc)
	m.dst = appendParent(m.key("parent_block_hash"), e, enc)
	m.dst = appendTokens(m.key("token_ids"), e)
	m.dst = appendInt(m.key("block_size"), int64(e.BlockSize))
	m.dst = appendOptInt(m.key("lora_id"), e.LoRAID, e.HasLoRAID)
	m.medium(e, enc)
	if enc == VLLM032 {
		m.storedVLLM(e)
		return
	}
	m.str("cache_salt", e.CacheSalt)
	m.str("session_id", e.SessionID)
	if enc == SGLang0523 {
		m.str("lora_name", e.LoRAName)
	}
}

func (m *mapWriter) storedVLLM(e *Event) {
	m.dst = m.key("lora_name")
	if e.LoRAName == nil {
		m.dst = append(m.dst, codeNil)
	} else {
		m.dst = appendStr(m.dst, e.LoRAName)
	}
	if e.ExtraKeys != nil {
		m.dst = appendExtraKeys(m.key("extra_keys"), e.ExtraKeys)
	}
	m.int("group_idx", int64(e.Group), e.HasGroup)
	m.str("kv_cache_spec_kind", e.SpecKind)
	m.int("kv_cache_spec_sliding_window", int64(e.SlidingWindow), e.SlidingWindow != 0)
	m.str("locality", e.Locality)
	m.str("ownership", e.Ownership)
	m.str("session_id", e.SessionID)
}

func appendExtraKeys(dst []byte, keys [][]byte) []byte {
	dst = appendArray(dst, len(keys))
	for _, raw := range keys {
		if raw == nil {
			dst = append(dst, codeNil)
			continue
		}
		dst = append(dst, raw...)
	}
	return dst
}

func appendOptInt(dst []byte, v int64, ok bool) []byte {
	if !ok {
		return append(dst, codeNil)
	}
	return appendInt(dst, v)
}
