package index

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Request is one request of a trace. Its ids stand for 512 tokens each.
type Request = trace.Request

// idTokens is the number of tokens of an id.
const idTokens = trace.BlockTokens

// ReadTrace reads a trace in Mooncake's format. limit > 0 bounds the requests.
func ReadTrace(r io.Reader, limit int) ([]Request, error) {
	t, err := trace.Read(r, limit)
	if err != nil {
		return nil, err
	}
	for i := range t.Requests {
		if n := t.Requests[i].Block; n != idTokens {
			return nil, fmt.Errorf("cannot use a trace with ids of %d tokens: give one with ids of %d, as Mooncake's", n, idTokens)
		}
	}
	return t.Requests, nil
}

// Conversation makes a trace like Mooncake's conversation trace: sessions with one common first
// id, whose turns extend the prompt before.
func Conversation(requests int) []Request {
	r := rand.New(rand.NewPCG(1, 1))
	var ids idSource
	ids.fresh(nil, 1) // id 0 is the common first one
	var sessions [][]uint64
	made := make([]Request, requests)
	for i := range made {
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
		made[i] = Request{At: time.Duration(i) * 300 * time.Millisecond, Input: len(prompt)*idTokens - r.IntN(idTokens), Output: 30 + r.IntN(600), IDs: prompt}
	}
	return made
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
	made := make([]Request, requests)
	for i := range made {
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
		made[i] = Request{At: time.Duration(i) * 100 * time.Millisecond, Input: len(prompt) * idTokens, Output: 30 + r.IntN(371), IDs: prompt}
	}
	return made
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
