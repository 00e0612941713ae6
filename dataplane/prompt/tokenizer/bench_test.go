package tokenizer_test

import (
	"strings"
	"testing"
)

// benchText is 64 KB of prose, code and other scripts. The vocabulary is a small one, so pieces
// have more tokens than with a real model; for those see `make test-tokenizers`.
var benchText = strings.Repeat("The quick brown fox, it's 12345; größer 敏捷的棕色狐狸 😀\n\tfor i := range s.items { sum += i }\n", 640)

func BenchmarkAppend(b *testing.B) {
	text := []byte(benchText)
	for _, name := range []string{"llama3", "qwen", "o200k", "deepseek", "gpt2", "llama2", "general"} {
		b.Run("warm/"+name, func(b *testing.B) {
			tok := loadVector(b, name)
			dst := tok.MustAppend(nil, benchText)
			b.SetBytes(int64(len(benchText)))
			b.ReportAllocs()
			for b.Loop() {
				dst, _ = tok.Append(dst[:0], text)
			}
		})
	}
	b.Run("contended/llama3", func(b *testing.B) {
		tok := loadVector(b, "llama3")
		tok.MustAppend(nil, benchText)
		b.SetBytes(int64(len(benchText)))
		b.RunParallel(func(pb *testing.PB) {
			var dst []uint32
			for pb.Next() {
				dst, _ = tok.Append(dst[:0], text)
			}
		})
	})
}

// BenchmarkMerge merges pieces that are not in the cache.
func BenchmarkMerge(b *testing.B) {
	tok := loadVector(b, "llama3")
	for name, piece := range map[string]string{
		"bytes=8": "sentence", "bytes=48": strings.Repeat("jumps over.", 5)[:48], "bytes=64Ki": strings.Repeat("a", 1<<16),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(piece)))
			for b.Loop() {
				tok.MergeBytes(piece, false)
			}
		})
	}
}
