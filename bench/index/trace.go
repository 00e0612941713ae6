package index

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// Request is one line of a trace in Mooncake's format.
type Request struct {
	Timestamp    float64  `json:"timestamp"` // ms
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"` // of 512 tokens each; equal ids are equal tokens
}

// idTokens is the number of tokens of an id.
const idTokens = 512

// maxRequestTokens bounds a request: no model takes more.
const maxRequestTokens = 1 << 24

// ReadTrace reads a trace in Mooncake's format: one JSON object a line.
func ReadTrace(r io.Reader) (trace []Request, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var r Request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("cannot read line %d of the trace: %w", n, err)
		}
		if r.InputLength < 1 || r.OutputLength < 0 || max(r.InputLength, r.OutputLength) > maxRequestTokens || len(r.HashIDs) == 0 {
			return nil, fmt.Errorf("cannot read line %d of the trace: %d prompt tokens, %d ids and %d tokens of the answer are no request",
				n, r.InputLength, len(r.HashIDs), r.OutputLength)
		}
		trace = append(trace, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the trace: %w", err)
	}
	if len(trace) == 0 {
		return nil, errors.New("cannot read the trace: it has no requests")
	}
	return trace, nil
}

// Conversation makes a trace like Mooncake's conversation trace: sessions with one common first
// id, whose turns extend the prompt before.
func Conversation(requests int) []Request {
	r := rand.New(rand.NewPCG(1, 1))
	var ids idSource
	ids.fresh(nil, 1) // id 0 is the common first one
	var sessions [][]uint64
	trace := make([]Request, requests)
	for i := range trace {
		prompt := []uint64{0}
		s := len(sessions) - 1 - int(min(r.ExpFloat64()*300, float64(len(sessions)-1)))
		// The context window.
		turn := len(sessions) > 0 && r.Float64() < 0.6 && len(sessions[s]) < 200
		if turn {
			prompt = sessions[s]
		}
		// Half of Mooncake's prompts are below 7 K tokens, a tenth above 30 K.
		prompt = ids.fresh(prompt, 1+int(min(math.Exp(1.5+1.1*r.NormFloat64()), 45)))
		if turn {
			sessions[s] = prompt
		} else {
			sessions = append(sessions, prompt)
		}
		trace[i] = Request{float64(i) * 300, len(prompt)*idTokens - r.IntN(idTokens), 30 + r.IntN(600), prompt}
	}
	return trace
}

// Shared makes a trace of shared prompts: 40 system prompts of 20 to 60 ids, drawn by Zipf's
// law, with turns behind.
func Shared(requests int) []Request {
	r := rand.New(rand.NewPCG(7, 7))
	var ids idSource
	prompts, weights, total := make([][]uint64, 40), make([]float64, 40), 0.0
	for i := range prompts {
		prompts[i] = ids.fresh(nil, 20+r.IntN(41))
		weights[i] = 1 / math.Pow(float64(i+1), 0.9)
		total += weights[i]
	}
	var sessions [][]uint64
	trace := make([]Request, requests)
	for i := range trace {
		var prompt []uint64
		if len(sessions) > 0 && r.IntN(2) == 0 {
			s := len(sessions) - 1 - r.IntN(min(len(sessions), 400))
			prompt = ids.fresh(sessions[s], 1+r.IntN(3))
			sessions[s] = prompt
		} else {
			p, v := 0, r.Float64()*total
			for ; p < len(prompts)-1 && v > weights[p]; p++ {
				v -= weights[p]
			}
			prompt = ids.fresh(prompts[p], 1+r.IntN(6))
			sessions = append(sessions, prompt)
		}
		trace[i] = Request{float64(i) * 100, len(prompt) * idTokens, 30 + r.IntN(371), prompt}
	}
	return trace
}

// idSource makes new ids.
type idSource uint64

// fresh returns a copy of ids with n new ones appended.
func (s *idSource) fresh(ids []uint64, n int) []uint64 {
	ids = slices.Clip(ids)
	for range n {
		ids = append(ids, uint64(*s))
		*s++
	}
	return ids
}
