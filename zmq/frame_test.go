package zmq_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/zmq"
)

// naiveDecode decodes the whole stream from one buffer: the oracle. bad means that it must be
// refused.
func naiveDecode(topic, b []byte, answers bool) (found []zmq.Found, bad bool) {
	var message [][]byte
	most := 3
	if answers {
		most = 4
	}
	frames, from, off, at := 0, 0, false, 0
	for {
		rest := b[at:]
		if len(rest) < 2 || rest[0]&2 != 0 && len(rest) < 9 {
			return found, false
		}
		flags, head, size := rest[0], 2, uint64(rest[1])
		if flags&2 != 0 {
			head, size = 9, binary.BigEndian.Uint64(rest[1:])
		}
		command, kept := flags&4 != 0, uint64(at-from)
		if off {
			kept = 0
		}
		if flags > 7 || command && flags&1 != 0 || command && size > zmq.MaxCommand || size > zmq.MaxMessage || kept+size > zmq.MaxMessage {
			return found, true
		}
		if uint64(len(rest)-head) < size {
			return found, false
		}
		body := rest[head : head+int(size)]
		at += head + int(size)
		if command {
			found = append(found, zmq.Found{Command: string(body)})
			if frames == 0 {
				from = at
			}
			continue
		}
		if frames == 0 {
			off = !bytes.HasPrefix(body, topic)
		}
		message, frames = append(message, body), frames+1
		wanted := bytes.HasPrefix(message[0], topic)
		off = off || frames > most
		if flags&1 != 0 {
			continue
		}
		switch {
		case !wanted:
		case answers:
			found = append(found, naiveAnswer(message))
		case frames == 3 && len(message[1]) == 8:
			found = append(found, zmq.Found{Message: zmq.Message{
				Topic: message[0], Seq: binary.BigEndian.Uint64(message[1]), Payload: message[2],
			}})
		default:
			found = append(found, zmq.Found{Malformed: frames})
		}
		message, frames, from, off = nil, 0, at, false
	}
}

// naiveAnswer reads frames as an answer to a replay request.
func naiveAnswer(frames [][]byte) zmq.Found {
	n := len(frames)
	if n < 3 || n > 4 || len(frames[0]) > 0 || len(frames[n-2]) != 8 {
		return zmq.Found{Malformed: n}
	}
	m := zmq.Message{Seq: binary.BigEndian.Uint64(frames[n-2]), Payload: frames[n-1]}
	if n == 4 {
		m.Topic = frames[1]
	}
	return zmq.Found{Message: m}
}

// frame returns a frame, short if possible, unless long is set.
func frame(flags byte, body string, long bool) []byte {
	if len(body) > 255 || long {
		return append(binary.BigEndian.AppendUint64([]byte{flags | 2}, uint64(len(body))), body...)
	}
	return append([]byte{flags, byte(len(body))}, body...)
}

// wire is a message as libzmq sends it.
func wire(topic string, seq uint64, payload string) (b []byte) {
	b = frame(1, topic, false)
	b = append(b, frame(1, string(seqFrame(seq)), false)...)
	return append(b, frame(0, payload, false)...)
}

// cut cuts b in pieces of sizes drawn by seed; 0 leaves it in one piece.
func cut(b []byte, seed uint64) (pieces [][]byte) {
	if seed == 0 {
		return [][]byte{b}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	longest := 1 + rng.IntN(1<<rng.IntN(18))
	for len(b) > 0 {
		n := min(len(b), 1+rng.IntN(longest))
		pieces, b = append(pieces, b[:n]), b[n:]
	}
	return pieces
}

func requireDecodes(t *testing.T, topic string, stream []byte, seed uint64) {
	t.Helper()
	answers := topic == answersTopic
	if answers {
		topic = ""
	}
	want, bad := naiveDecode([]byte(topic), stream, answers)
	got, buffer, err := zmq.Decode(topic, answers, cut(stream, seed))
	require.Equal(t, bad, err != nil, "%v", err)
	if bad {
		require.ErrorIs(t, err, zmq.ErrProtocol)
	}
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, want[i].Malformed, got[i].Malformed)
		require.Equal(t, want[i].Command, got[i].Command)
		requireMessage(t, got[i].Message, string(want[i].Message.Topic), want[i].Message.Seq, string(want[i].Message.Payload))
	}
	require.LessOrEqual(t, buffer, 1<<17+2*len(stream), "memory is that of what came")
}

// answersTopic makes requireDecodes read a stream as answers to a replay request.
const answersTopic = "answers"

// answer returns a replay answer as libzmq sends it.
func answer(topic string, seq uint64, payload string) []byte {
	return append(frame(1, "", false), wire(topic, seq, payload)...)
}

// streams are streams of publishers, and some that must be refused.
func streams() [][]byte {
	big := strings.Repeat("x", 70_000) // More than a buffer.
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	ping := frame(4, "\x04PING\x00\x00", false)
	return [][]byte{
		nil,
		join(wire("t", 0, "a"), wire("t", 1, ""), wire("tea", 2, big), wire("u", 3, big), wire("", 4, "b")),
		join(wire("t", 1<<63, strings.Repeat("y", 255)), wire("t", 7, strings.Repeat("z", 256))),
		join(frame(1, "t", true), ping, frame(1, "12345678", true), frame(4, strings.Repeat("c", 1000), false), frame(0, "p", true), ping),
		join(frame(0, "t", false), frame(1, "t", false), frame(0, "", false), frame(1, "t", false), frame(1, "1234567", false), frame(0, "p", false)),
		join(bytes.Repeat(frame(1, big[:100], false), 700), frame(0, "", false), wire("t", 1, "after")),
		join(bytes.Repeat(frame(1, "t", false), 300), frame(1, big, true), ping, frame(0, big, true), wire("t", 1, "after")),
		join(wire("t", 1, "x"), []byte{0x08, 0}), join(wire("t", 1, "x"), []byte{0x05, 0}), join(wire("t", 1, "x"), []byte{0xff}),
		join(answer("t", 0, "a"), ping, answer("", 1, big), frame(1, "", false), frame(1, "12345678", false), frame(0, "old", false)),
		join(answer("", 1<<64-1, ""), frame(1, "", false), wire("1234567", 1, "p"), frame(1, "", false), answer("t", 1, "five"), answer("t", 2, "b")),
		{2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{2, 0, 0, 0, 0, 4, 0, 0, 1},
		{2, 0, 0, 0, 0, 4, 0, 0, 0},
		{6, 0, 0, 0, 0, 0, 1, 0, 1},
		{6, 0, 0, 0, 0, 0, 1, 0, 0},
		join(frame(1, "t", false), []byte{2, 0, 0, 0, 0, 4, 0, 0, 0}), join(frame(1, "u", false), []byte{2, 0, 0, 0, 0, 4, 0, 0, 0}),
	}
}

// FuzzDecoder cuts random bytes in random pieces. The oracle sees them in one.
func FuzzDecoder(f *testing.F) {
	for i, stream := range streams() {
		f.Add("t", stream[:min(len(stream), 1<<12)], uint64(i))
		f.Add(answersTopic, stream[:min(len(stream), 1<<12)], uint64(i))
	}
	f.Fuzz(requireDecodes)
}

// TestDecoderHoldsWhatCame: a peer that announces much and sends little costs little memory.
func TestDecoderHoldsWhatCame(t *testing.T) {
	announced := append(frame(1, "t", false), 2, 0, 0, 0, 0, 3, 0xff, 0, 0)
	_, buffer, err := zmq.Decode("t", false, [][]byte{announced, make([]byte, 100_000)})
	require.NoError(t, err)
	require.LessOrEqual(t, buffer, 256<<10)

	many := bytes.Repeat(frame(1, strings.Repeat("x", 200), false), 10_000)
	_, buffer, err = zmq.Decode("", false, cut(many, 5))
	require.NoError(t, err)
	require.LessOrEqual(t, buffer, 64<<10, "frames without an end")

	got, buffer, err := zmq.Decode("", false, [][]byte{wire("t", 1, strings.Repeat("x", 10<<20))})
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Zero(t, buffer, "nothing waits")
}

// TestDecoderBeginsLarge: after a long message the next one begins with a buffer of its size; a
// short one gives it up.
func TestDecoderBeginsLarge(t *testing.T) {
	long, short := wire("kv", 1, strings.Repeat("x", 100<<10)), wire("kv", 2, "x")
	sizes := zmq.DecodeSizes([][]byte{short, long, long, short, long, short, short, short})
	require.Equal(t, []int{64 << 10, 64 << 10, 128 << 10, 128 << 10, 64 << 10, 128 << 10, 64 << 10, 64 << 10}, sizes)
}
