package load

import (
	"math/rand/v2"
	"strconv"
)

const (
	// Text and ids for a few prompts are made once; prompts are pieces of them, so that a prompt
	// costs a copy.
	minPool, maxPool = 64 << 10, 1 << 20
	// idSize is an id in JSON: five digits and a comma. Ids of one length can be cut anywhere.
	idSize  = 6
	firstID = 10_000
	ids     = 40_000 // below those of mock's answers
)

// writer makes bodies. It belongs to one goroutine.
type writer struct {
	cfg    *Config
	random *rand.Rand
	text   []byte // words
	ids    []byte // numbers of five digits, each with a comma
	begin  []byte // of a body, up to the prompt
	end    []byte // the bytes behind the prompt
	serial uint64 // of the next prompt
}

// newWriter returns a writer whose prompts share no beginning with those of other seeds.
func newWriter(cfg *Config) *writer {
	w := &writer{
		cfg: cfg, random: rand.New(rand.NewPCG(cfg.Seed, 0)),
		serial: cfg.Seed % ids * ids * ids, // the third number of a name is the seed's
	}
	shared := rand.New(rand.NewPCG(cfg.Seed, 1<<32))
	pool := min(max(4*cfg.Size, minPool), maxPool)
	for len(w.text) < pool {
		for range 2 + shared.IntN(8) {
			w.text = append(w.text, byte('a'+shared.IntN(26)))
		}
		w.text = append(w.text, ' ')
	}
	for len(w.ids) < pool {
		w.ids = append(strconv.AppendInt(w.ids, int64(firstID+shared.IntN(ids)), 10), ',')
	}
	w.frame()
	return w
}

// frame prepares the bytes around all prompts.
func (w *writer) frame() {
	c := w.cfg
	model := `{"model":` + strconv.Quote(c.Model)
	tokens := strconv.Itoa(c.Tokens)
	rest := `,"max_tokens":` + tokens + `,"temperature":0,"stream":` + strconv.FormatBool(c.Stream) + `}`
	if c.Stream {
		rest = rest[:len(rest)-1] + `,"stream_options":{"include_usage":true}}`
	}
	native := `,"sampling_params":{"max_new_tokens":` + tokens + `,"temperature":0,"ignore_eos":true},"stream":` + strconv.FormatBool(c.Stream) + `}`
	switch c.API {
	case Chat:
		w.begin, w.end = []byte(model+`,"messages":[`), []byte(`]`+rest)
	case Completions:
		w.begin, w.end = []byte(model+`,"prompt":"`), []byte(`"`+rest)
	case Text:
		w.begin, w.end = []byte(`{"text":"`), []byte(`"`+native)
	case IDs:
		w.begin, w.end = []byte(`{"input_ids":[`), []byte(`]`+native)
	}
}

const (
	userBegin = `{"role":"user","content":"`
	userEnd   = `"}`
)

// unique appends a body of Size bytes, give or take idSize, whose prompt shares no beginning with
// any other.
func (w *writer) unique(dst []byte) []byte {
	room := w.cfg.Size - len(w.begin) - len(w.end)
	dst = append(dst, w.begin...)
	if w.cfg.API == Chat {
		room -= len(userBegin) + len(userEnd)
		dst = append(dst, userBegin...)
	}
	dst = w.fill(w.name(dst), room-nameSize)
	if w.cfg.API == IDs {
		dst = dst[:len(dst)-1] // the last comma
	}
	if w.cfg.API == Chat {
		dst = append(dst, userEnd...)
	}
	return append(dst, w.end...)
}

// nameSize is the length of a name in ids or letters, both of base 40,000 or below.
const nameSize = 3 * idSize

// name appends a beginning that no other prompt of this seed has.
func (w *writer) name(dst []byte) []byte {
	n := w.serial
	w.serial++
	for range 3 {
		dst = append(strconv.AppendUint(dst, firstID+n%ids, 10), w.separator())
		n /= ids
	}
	return dst
}

func (w *writer) separator() byte {
	if w.cfg.API == IDs {
		return ','
	}
	return ' '
}

// fill appends n bytes of random text, or of ids as many whole ones as n bytes hold.
func (w *writer) fill(dst []byte, n int) []byte {
	pool, unit := w.text, 1
	if w.cfg.API == IDs {
		pool, unit = w.ids, idSize
	}
	for n >= unit {
		piece := min(n, len(pool)/2)
		piece -= piece % unit
		at := w.random.IntN((len(pool)-piece)/unit) * unit
		dst = append(dst, pool[at:at+piece]...)
		n -= piece
	}
	return dst
}
