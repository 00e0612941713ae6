package load

import (
	"math/rand/v2"

	"github.com/warmpath/warmpath/bench/proxy/mock"
)

const (
	// systems are the system prompts that conversations begin with, so many for all of them.
	systems = 8
	// systemShare of the longest body is the system prompt.
	systemShare = 4
)

// talk is a conversation: all messages so far, as the JSON of a body.
type talk struct {
	said []byte
	turn int
}

// talks are the conversations of a thread. Each waits for its answer before it goes on, and those
// that wait longest go on first.
type talks struct {
	w       *writer
	systems [systems][]byte
	ready   []*talk
	grow    int // bytes of a turn
}

func newTalks(w *writer) *talks {
	t := &talks{w: w, grow: w.cfg.Size * (systemShare - 1) / systemShare / w.cfg.Turns}
	own := w.random
	w.random = rand.New(rand.NewPCG(w.cfg.Seed, 1<<33))
	for i := range t.systems {
		t.systems[i] = w.fill(nil, w.cfg.Size/systemShare)
	}
	w.random = own
	for range w.cfg.Conversations {
		t.ready = append(t.ready, &talk{})
	}
	return t
}

// next appends the body of the next turn of a conversation that is ready.
func (t *talks) next(dst []byte) ([]byte, *talk) {
	k := &talk{} // where all are under way, one more begins
	if len(t.ready) > 0 {
		k = t.ready[0]
		t.ready[0] = nil
		t.ready = t.ready[1:]
	}
	t.say(k)
	dst = append(dst, t.w.begin...)
	dst = append(dst, k.said...)
	if t.w.cfg.API == IDs {
		dst = dst[:len(dst)-1] // the last comma
	}
	return append(dst, t.w.end...), k
}

// say adds a user's message; a finished conversation is replaced by a new one.
func (t *talks) say(k *talk) {
	w := t.w
	if k.turn++; k.turn > w.cfg.Turns {
		*k = talk{said: k.said[:0], turn: 1}
	}
	chat := w.cfg.API == Chat
	n := t.grow
	if k.turn > 1 {
		n -= t.answerSize()
		k.said = t.answer(k.said)
	} else {
		if chat {
			k.said = append(k.said, `{"role":"system","content":"`...)
		}
		k.said = append(k.said, t.systems[w.random.IntN(systems)]...)
		if chat {
			k.said = append(k.said, userEnd...)
		}
	}
	if chat {
		k.said = append(k.said, ","+userBegin...)
	}
	if k.turn == 1 {
		k.said = w.name(k.said)
		n -= nameSize
	}
	k.said = w.fill(k.said, max(n, idSize))
	if chat {
		k.said = append(k.said, userEnd...)
	}
}

func (t *talks) answerSize() int {
	if t.w.cfg.API == IDs {
		return t.w.cfg.Tokens * idSize
	}
	return t.w.cfg.Tokens * len(mock.Word)
}

// answer adds the answer of package mock's workers.
func (t *talks) answer(said []byte) []byte {
	switch t.w.cfg.API {
	case IDs:
		return append(mock.AppendAnswer(said, t.w.cfg.Tokens), ',')
	case Chat:
		said = mock.AppendWords(append(said, `,{"role":"assistant","content":"`...), t.w.cfg.Tokens)
		return append(said, userEnd...)
	default:
		return mock.AppendWords(said, t.w.cfg.Tokens)
	}
}

// answered has a conversation wait for its next turn.
func (t *talks) answered(k *talk) { t.ready = append(t.ready, k) }

// failed ends a conversation: its answer is unknown.
func (t *talks) failed(k *talk) {
	*k = talk{said: k.said[:0]}
	t.ready = append(t.ready, k)
}
