package kvevent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

var encodings = []kvevent.Encoding{
	kvevent.SGLang0508, kvevent.SGLang0515, kvevent.SGLang0518, kvevent.SGLang0521, kvevent.SGLang0523, kvevent.VLLM032,
}

// FuzzDecode holds the decoder to the naive one, and the encoders to the decoder.
func FuzzDecode(f *testing.F) {
	for _, v := range eventVectors(f) {
		if p := v.payload(f); len(p) < 2000 {
			f.Add(p)
		}
	}
	for _, s := range append(slices.Clone(shapeTests), looseTests...) {
		f.Add(s.payload())
	}
	f.Add(packed{0x83, "ts", ts, "events", 0x91, 0x91, "AllBlocksCleared", "attn_dp_rank", 3}.payload())
	f.Fuzz(func(t *testing.T, payload []byte) {
		var b kvevent.Batch
		_ = b.Decode(shapeTests[0].payload()) // A used batch must behave as a new one.
		err := b.Decode(payload)
		want, ok := naiveDecode(payload)
		if ok != (err == nil) || err != nil && !errors.Is(err, kvevent.ErrMalformed) {
			t.Fatalf("Decode(%x) = %v, naive says %t", payload, err, ok)
		}
		if !equalBatches(&b, &want) {
			t.Fatalf("Decode(%x) = %+v, want %+v", payload, b, want)
		}
		if !json.Valid(kvevent.AppendJSON(nil, &b)) {
			t.Fatalf("AppendJSON is not JSON: %s", kvevent.AppendJSON(nil, &b))
		}
		for _, enc := range encodings {
			checkRoundTrip(t, &b, enc)
		}
	})
}

// checkRoundTrip encodes b and decodes it again: all that the release can express must come
// back, in bytes and meaning.
func checkRoundTrip(t *testing.T, b *kvevent.Batch, enc kvevent.Encoding) {
	t.Helper()
	bytes1 := kvevent.Append(nil, b, enc)
	var again kvevent.Batch
	if err := again.Decode(bytes1); err != nil {
		t.Fatalf("Decode(Append(%+v, %v) = %x): %v", *b, enc, bytes1, err)
	}
	if bytes2 := kvevent.Append(nil, &again, enc); !bytes.Equal(bytes1, bytes2) {
		t.Fatalf("Append(%v) = %x, and once more %x", enc, bytes1, bytes2)
	}
	want := kvevent.Batch{Time: b.Time, Rank: b.Rank, HasRank: b.HasRank}
	for _, e := range b.Events {
		want.Events = append(want.Events, expressible(e, enc))
	}
	if !equalBatches(&again, &want) {
		t.Fatalf("Decode(Append(%v)) = %+v, want %+v", enc, again, want)
	}
}

// expressible returns the part of e that release enc can express.
func expressible(e kvevent.Event, enc kvevent.Encoding) kvevent.Event {
	if e.Kind == kvevent.Cleared {
		return kvevent.Event{Kind: e.Kind}
	}
	s := kvevent.Event{
		Kind: e.Kind, Hashes: e.Hashes, Parent: e.Parent, HasParent: e.HasParent, Tokens: e.Tokens, Bigram: e.Bigram,
		BlockSize: e.BlockSize, LoRAID: e.LoRAID, HasLoRAID: e.HasLoRAID,
	}
	if enc >= kvevent.SGLang0515 {
		s.Medium, s.MediumName = e.Medium, e.MediumName
	}
	if enc >= kvevent.SGLang0518 && enc != kvevent.VLLM032 {
		s.CacheSalt = e.CacheSalt
	}
	if enc >= kvevent.SGLang0521 {
		s.SessionID = e.SessionID
	}
	if enc >= kvevent.SGLang0523 {
		s.LoRAName = e.LoRAName
	}
	if enc == kvevent.VLLM032 {
		s.RawHashes, s.RawParent, s.ExtraKeys = e.RawHashes, e.RawParent, e.ExtraKeys
		s.Group, s.HasGroup, s.SpecKind, s.SlidingWindow = e.Group, e.HasGroup, e.SpecKind, e.SlidingWindow
		s.Locality, s.Ownership = e.Locality, e.Ownership
		for i, h := range e.Hashes {
			s.Unsigned = s.Unsigned || h > math.MaxInt64 && (e.RawHashes == nil || e.RawHashes[i] == nil)
		}
		s.Unsigned = s.Unsigned || e.HasParent && e.Parent > math.MaxInt64 && e.RawParent == nil
	}
	return s
}

// equalBatches compares the exported fields; NaN equals itself, and an empty list of numbers
// equals none.
func equalBatches(a, b *kvevent.Batch) bool {
	view := func(b *kvevent.Batch) (kvevent.Batch, uint64) {
		v := kvevent.Batch{
			Rank: b.Rank, HasRank: b.HasRank, UnknownEvents: b.UnknownEvents, UnknownFields: b.UnknownFields,
			WideTokens: b.WideTokens, BadEvents: b.BadEvents,
		}
		for _, e := range b.Events {
			e.Hashes = append([]uint64(nil), e.Hashes...)
			e.Tokens = append([]uint32(nil), e.Tokens...)
			v.Events = append(v.Events, e)
		}
		return v, math.Float64bits(b.Time)
	}
	va, ta := view(a)
	vb, tb := view(b)
	return ta == tb && reflect.DeepEqual(va, vb)
}

// FuzzLoad decodes random bytes and encodes the result.
func FuzzLoad(f *testing.F) {
	for _, v := range readLines(f, "sglang_load_events.jsonl") {
		f.Add(v.payload(f))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var l, again kvevent.Load
		if err := l.Decode(payload); err != nil {
			if l != (kvevent.Load{}) || !errors.Is(err, kvevent.ErrMalformed) {
				t.Fatalf("Decode(%x) = %+v, %v", payload, l, err)
			}
			return
		}
		if err := again.Decode(kvevent.AppendLoad(nil, &l)); err != nil || again != l {
			t.Fatalf("Decode(AppendLoad(%+v)) = %+v, %v", l, again, err)
		}
	})
}
