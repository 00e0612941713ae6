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
		if n := testing.AllocsPerRun(100, func() { buf, _ = tok.Append(buf[:0], bytes) }); n != 0 {
			t.Errorf("%s: Append allocates %v times, want 0", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { tok.CutAfter(bytes, len(bytes)/2) }); n != 0 {
			t.Errorf("%s: CutAfter allocates %v times, want 0", name, n)
		}
	}
}
