package kvevent_test

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"strings"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// The oracle: msgpack into any value first, with recursion and copies, and the meaning of it
// afterwards. It shares no code with the decoder.

type (
	node   struct{ v, raw any } // raw is the value's []byte.
	number struct {
		v     uint64
		above bool
	}
	list   []node
	dict   []node // Keys and values in turn.
	opaque struct{}
)

type naive struct{ b []byte }

type bad struct{}

func (n *naive) take(size uint64) []byte {
	if size > uint64(len(n.b)) {
		panic(bad{})
	}
	s := n.b[:size]
	n.b = n.b[size:]
	return s
}

func (n *naive) uint(size uint64) (v uint64) {
	for _, c := range n.take(size) {
		v = v<<8 | uint64(c)
	}
	return v
}

func (n *naive) node() node {
	before := n.b
	v := n.value()
	return node{v, before[:len(before)-len(n.b)]}
}

func (n *naive) nodes(count uint64) (all []node) {
	for range count {
		all = append(all, n.node())
	}
	return all
}

func (n *naive) value() any {
	c := uint64(n.take(1)[0])
	switch {
	case c < 0x80:
		return number{v: c}
	case c < 0x90:
		return dict(n.nodes(2 * (c - 0x80)))
	case c < 0xa0:
		return list(n.nodes(c - 0x90))
	case c < 0xc0:
		return string(n.take(c - 0xa0))
	case c >= 0xe0:
		return number{v: c | 0xffffffffffffff00}
	}
	switch c {
	case 0xc0:
		return nil
	case 0xc2, 0xc3:
		return opaque{}
	case 0xc4, 0xc5, 0xc6:
		return n.take(n.uint(1 << (c - 0xc4)))
	case 0xc7, 0xc8, 0xc9:
		n.take(1 + n.uint(1<<(c-0xc7)))
		return opaque{}
	case 0xca:
		return float64(math.Float32frombits(uint32(n.uint(4))))
	case 0xcb:
		return math.Float64frombits(n.uint(8))
	case 0xcc, 0xcd, 0xce, 0xcf:
		v := n.uint(1 << (c - 0xcc))
		return number{v, v > math.MaxInt64}
	case 0xd0:
		return number{v: uint64(int8(n.uint(1)))}
	case 0xd1:
		return number{v: uint64(int16(n.uint(2)))}
	case 0xd2:
		return number{v: uint64(int32(n.uint(4)))}
	case 0xd3:
		return number{v: n.uint(8)}
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		n.take(1 + 1<<(c-0xd4))
		return opaque{}
	case 0xd9, 0xda, 0xdb:
		return string(n.take(n.uint(1 << (c - 0xd9))))
	case 0xdc, 0xdd:
		return list(n.nodes(n.uint(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return dict(n.nodes(2 * n.uint(2<<(c-0xde))))
	}
	panic(bad{})
}

// naiveDecode is the oracle of Decode.
func naiveDecode(payload []byte) (b kvevent.Batch, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, expected := r.(bad); !expected {
				panic(r)
			}
			b, ok = kvevent.Batch{}, false
		}
	}()
	n := naive{payload}
	v := n.value()
	must(len(n.b) == 0)
	var named dict
	switch top := v.(type) {
	case list:
		must(len(top) >= 2)
		for i, field := range top {
			named = append(named, node{v: []string{"ts", "events", "attn_dp_rank", "?"}[min(i, 3)]}, field)
		}
	default:
		named = as[dict](v)
	}
	found := false
	for i := 0; i < len(named); i += 2 {
		switch name, v := loose(named[i].v), named[i+1].v; name {
		case "ts":
			naiveTime(&b, v)
		case "attn_dp_rank", "data_parallel_rank":
			naiveRank(&b, v)
		case "events":
			must(!found)
			found = true
			if v != nil {
				for _, e := range as[list](v) {
					naiveContained(&b, e)
				}
			}
		default:
			b.UnknownFields++
		}
	}
	must(found)
	return b, true
}

func naiveTime(b *kvevent.Batch, v any) {
	switch ts := v.(type) {
	case float64:
		b.Time = ts
	case number:
		b.Time = float64(int64(ts.v))
		if ts.above {
			b.Time = float64(ts.v)
		}
	default:
		b.Time = 0
		b.UnknownFields++
	}
}

func naiveRank(b *kvevent.Batch, v any) {
	b.Rank, b.HasRank = 0, false
	if i, ok := v.(number); ok && !i.above {
		b.Rank, b.HasRank = int(i.v), true
	} else if v != nil {
		b.UnknownFields++
	}
}

// naiveContained adds an event, or counts it as bad and removes its traces.
func naiveContained(b *kvevent.Batch, e node) {
	before := *b
	defer func() {
		if r := recover(); r != nil {
			if _, expected := r.(bad); !expected {
				panic(r)
			}
			*b = before
			b.BadEvents++
		}
	}()
	naiveEvent(b, e)
}

// loose is a name, as a string or as bytes; "" is none.
func loose(v any) string {
	if raw, ok := v.([]byte); ok {
		return string(raw)
	}
	s, _ := v.(string)
	return s
}

func isName(v any) bool {
	switch v.(type) {
	case string, []byte:
		return true
	}
	return false
}

func must(ok bool) {
	if !ok {
		panic(bad{})
	}
}

func as[T any](v any) T {
	t, ok := v.(T)
	must(ok)
	return t
}

func optional(v any) (int64, bool) {
	if v == nil {
		return 0, false
	}
	i := as[number](v)
	must(!i.above)
	return int64(i.v), true
}

func text(v any) []byte {
	if v == nil {
		return nil
	}
	must(isName(v))
	return append([]byte{}, loose(v)...)
}

// label is a name that may be anything else.
func label(b *kvevent.Batch, v any) []byte {
	if v != nil && !isName(v) {
		b.UnknownFields++
		return nil
	}
	return text(v)
}

// positions names the elements of the array shapes.
var positions = map[string][]string{
	"BlockStored": {
		"", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
		"group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	},
	"BlockRemoved":     {"", "block_hashes", "medium", "group_idx"},
	"AllBlocksCleared": {""},
}

var kinds = map[string]kvevent.Kind{
	"BlockStored": kvevent.Stored, "BlockRemoved": kvevent.Removed, "AllBlocksCleared": kvevent.Cleared,
}

func naiveEvent(b *kvevent.Batch, n node) {
	var tag string
	var fields dict
	switch v := n.v.(type) {
	case dict:
		tag, fields = naiveTag(v), v
	case list:
		must(len(v) > 0)
		must(isName(v[0].v))
		tag = loose(v[0].v)
		names := positions[tag]
		must(tag != "BlockStored" || len(v) >= 4)
		must(tag != "BlockRemoved" || len(v) >= 2)
		for i := 1; i < len(v) && names != nil; i++ {
			name := "?"
			if i < len(names) {
				name = names[i]
			}
			if m, ok := v[i].v.(dict); ok && name == "lora_name" {
				for j := 0; j < len(m); j += 2 { // SGLang 0.5.18: the only name there is cache_salt.
					key := loose(m[j].v)
					if key != "cache_salt" {
						key = "?"
					}
					fields = append(fields, node{v: key}, m[j+1])
				}
				continue
			}
			fields = append(fields, node{v: name}, v[i])
		}
	default:
		must(loose(v) == "AllBlocksCleared")
		tag = loose(v)
	}
	kind := kinds[tag]
	if kind == 0 {
		b.UnknownEvents++
		return
	}
	naiveFields(b, kind, fields)
}

func naiveTag(m dict) string {
	for i := 0; i < len(m); i += 2 {
		if loose(m[i].v) == "type" {
			must(isName(m[i+1].v))
			return loose(m[i+1].v)
		}
	}
	panic(bad{})
}

func naiveFields(b *kvevent.Batch, kind kvevent.Kind, m dict) {
	e := kvevent.Event{Kind: kind}
	seen := map[string]bool{}
	for i := 0; i < len(m); i += 2 {
		key := loose(m[i].v)
		if key == "type" {
			continue
		}
		known := kind == kvevent.Stored && key != "" ||
			kind == kvevent.Removed && (key == "block_hashes" || key == "medium" || key == "group_idx" ||
				key == "locality" || key == "ownership")
		if !known || !naiveField(b, &e, key, m[i+1]) {
			b.UnknownFields++
		}
		seen[key] = seen[key] || key != "block_size" || m[i+1].v != nil
	}
	must(kind == kvevent.Cleared || seen["block_hashes"])
	must(kind != kvevent.Stored || seen["token_ids"])
	if kind == kvevent.Stored && !seen["block_size"] {
		tokens := len(e.Tokens)
		if e.Bigram {
			tokens /= 2
		}
		must(len(e.Hashes) > 0 && tokens%len(e.Hashes) == 0)
		e.BlockSize = tokens / len(e.Hashes)
	}
	b.Events = append(b.Events, e)
}

func naiveField(b *kvevent.Batch, e *kvevent.Event, key string, n node) bool {
	v := n.v
	switch key {
	case "block_hashes":
		naiveHashes(e, as[list](v))
	case "parent_block_hash":
		e.Parent, e.RawParent, e.HasParent = 0, nil, v != nil
		if v != nil {
			e.Parent, e.RawParent = naiveHash(e, v)
		}
	case "token_ids":
		naiveTokens(b, e, as[list](v))
	case "block_size":
		size, has := optional(v)
		must(size >= 0)
		if has {
			e.BlockSize = int(size)
		}
	case "lora_id":
		e.LoRAID, e.HasLoRAID = optional(v)
	case "medium":
		if e.Kind == kvevent.Removed && v != nil && !isName(v) {
			b.UnknownFields++
			v = nil
		}
		naiveMedium(e, text(v))
	case "lora_name":
		e.LoRAName = text(v)
	case "cache_salt":
		e.CacheSalt = text(v)
	case "session_id":
		e.SessionID = label(b, v)
	case "extra_keys":
		naiveExtraKeys(e, v)
	case "group_idx":
		g, has := optional(v)
		e.Group, e.HasGroup = int(g), has
	case "kv_cache_spec_kind":
		e.SpecKind = label(b, v)
	case "kv_cache_spec_sliding_window":
		e.SlidingWindow = 0
		if w, ok := v.(number); ok && !w.above {
			e.SlidingWindow = int(w.v)
		} else if v != nil {
			b.UnknownFields++
		}
	case "extra_key":
		e.ExtraKey = naiveKeys(n)
	case "locality":
		e.Locality = label(b, v)
	case "ownership":
		e.Ownership = label(b, v)
	default:
		return false
	}
	return true
}

func naiveHashes(e *kvevent.Event, hashes list) {
	e.Hashes, e.RawHashes = nil, nil
	for i, h := range hashes {
		hash, raw := naiveHash(e, h.v)
		e.Hashes = append(e.Hashes, hash)
		if raw != nil && e.RawHashes == nil {
			e.RawHashes = make([][]byte, len(hashes))
		}
		if raw != nil {
			e.RawHashes[i] = raw
		}
	}
}

func naiveExtraKeys(e *kvevent.Event, v any) {
	e.ExtraKeys = nil
	if v == nil {
		return
	}
	e.ExtraKeys = [][]byte{}
	for _, k := range as[list](v) {
		e.ExtraKeys = append(e.ExtraKeys, naiveKeys(k))
	}
}

// naiveKeys are the bytes of keys, unless there are none in them.
func naiveKeys(k node) []byte {
	raw := k.raw.([]byte)
	if k.v == nil || len(raw) == 1 && (raw[0] == 0x80 || raw[0] == 0x90 || raw[0] == 0xa0) {
		return nil
	}
	return raw
}

func naiveHash(e *kvevent.Event, v any) (uint64, []byte) {
	if raw, ok := v.([]byte); ok {
		must(len(raw) >= 8)
		return binary.BigEndian.Uint64(raw), raw
	}
	i := as[number](v)
	e.Unsigned = e.Unsigned || i.above
	return i.v, nil
}

func naiveTokens(b *kvevent.Batch, e *kvevent.Event, tokens list) {
	e.Tokens, e.Bigram = nil, false
	for i, t := range tokens {
		pair, ok := t.v.(list)
		if i == 0 {
			e.Bigram = ok
		}
		must(ok == e.Bigram)
		if !ok {
			pair = list{t}
		} else {
			must(len(pair) == 2)
		}
		for _, p := range pair {
			if isName(p.v) {
				b.WideTokens++
				e.Tokens = append(e.Tokens, crc32.Checksum([]byte(loose(p.v)), crc32.MakeTable(crc32.Castagnoli)))
				continue
			}
			v := as[number](p.v).v
			if v > math.MaxUint32 {
				b.WideTokens++
				v ^= v >> 32
			}
			e.Tokens = append(e.Tokens, uint32(v))
		}
	}
}

func naiveMedium(e *kvevent.Event, name []byte) {
	e.Medium, e.MediumName = kvevent.MediumOther, name
	switch strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}, string(name)) {
	case "GPU":
		e.Medium, e.MediumName = kvevent.MediumGPU, nil
	case "CPU", "CPU_PINNED":
		e.Medium, e.MediumName = kvevent.MediumCPU, nil
	case "DISK", "EXTERNAL", "STORAGE":
		e.Medium = kvevent.MediumStorage
	}
	if len(name) == 0 {
		e.Medium, e.MediumName = kvevent.MediumNone, nil
	}
}
