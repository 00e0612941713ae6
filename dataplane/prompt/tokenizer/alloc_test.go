//go:build !race

package tokenizer_test

import (
	"strings"
	"testing"
)

func TestAppendDoesNotAllocWarm(t *testing.T) {
	text := strings.Repeat("The quick brown fox, it's 12345; größer 敏捷的棕色狐狸 😀\n<|im_end|>", 50)
	for _, name := range []string{"llama3", "qwen", "o200k", "deepseek", "gpt2", "starcoder", "falcon", "llama2", "gemma", "metaspace-first-true"} {
		tok := loadVector(t, name)
		bytes := []byte(text)
		buf := tok.MustAppend(nil, text)
		if n := testing.AllocsPerRun(100, func() { buf = tok.MustAppendBytes(buf[:0], bytes) }); n != 0 {
			t.Errorf("%s: AppendBytes allocates %v times, want 0", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { tok.Cut(text) }); n != 0 {
			t.Errorf("%s: Cut allocates %v times, want 0", name, n)
		}
	}
}
