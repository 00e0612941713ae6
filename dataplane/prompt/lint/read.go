package lint

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
)

// Reading is the result of reading a file.
type Reading struct {
	Prompts []*Prompt
	Lines   int // with a prompt, also beyond the number kept
	Skipped int // without one
}

// maxLine bounds a line of a file.
const maxLine = 64 << 20

// Read reads JSON lines and keeps at most keep prompts. Each line has the same chance. The same
// file gives the same ones.
func Read(r io.Reader, keep int) (*Reading, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	out, rng := &Reading{}, rand.New(rand.NewPCG(1, 1))
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		p, err := Parse(lines.Bytes())
		if err != nil {
			out.Skipped++
			continue
		}
		out.Lines++
		if len(out.Prompts) < keep {
			out.Prompts = append(out.Prompts, p)
		} else if i := rng.IntN(out.Lines); i < keep {
			out.Prompts[i] = p
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read prompts: %w", err)
	}
	if out.Lines == 0 && out.Skipped > 0 {
		return nil, fmt.Errorf("cannot read prompts: %w in %d lines", ErrBody, out.Skipped)
	}
	return out, nil
}
