package sim

import (
	"bytes"
	"strconv"
)

// journal notes that a request has begun ("+"), or that its answer is whole ("-"), by the number
// behind the first # of its body. A line is one write, so that a file has it even when the process
// is killed.
func (p *process) journal(mark byte, number []byte) {
	if p.cfg.Journal == nil || len(number) == 0 {
		return
	}
	line := append(append([]byte{mark}, number...), '\n')
	if _, err := p.cfg.Journal.Write(line); err != nil {
		p.cfg.Log.Error("the journal has a gap", "line", string(line), "error", err)
	}
}

// numberIn returns a copy of the number behind the first # of a body; nil if there is none.
func numberIn(body []byte) []byte {
	_, rest, _ := bytes.Cut(body, []byte("#"))
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	if _, err := strconv.ParseUint(string(rest[:end]), 10, 64); err != nil {
		return nil
	}
	return bytes.Clone(rest[:end])
}
