package main

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// tierEngine is one rank of an engine before its KV tier: the protocol of store/enginewire.go,
// implemented from its comment alone.
type tierEngine struct {
	t    *testing.T
	conn *net.UnixConn
	seq  uint64
}

const (
	enginePage  = 4096 // bytes of a page
	enginePool  = 256  // pages in the host pool
	tierHello   = 1
	tierExists  = 2
	tierSet     = 5
	tierCommit  = 6
	tierClear   = 8
	tierRetire  = 9
	frameHeader = 16
)

// tierSpace is the namespace of one rank of an engine of the simulated workers' model.
func tierSpace(t *testing.T, rank, weights string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"model": "simulated", "rank": rank, "pp": "0/1", "cp": "0/1", "pool": "kv", "form": "layer_first", "dtype": "bf16", "tokens": page, "layers": 1, "heads": 1,
		"own": "", "weights": weights,
	})
	require.NoError(t, err)
	return string(text)
}

// dialTierEngine connects a rank, once the tier listens.
func dialTierEngine(t *testing.T, socket, rank string) *tierEngine {
	t.Helper()
	return dialTierWeights(t, socket, rank, "first")
}

// dialTierWeights is dialTierEngine of an engine with other weights.
func dialTierWeights(t *testing.T, socket, rank, weights string) *tierEngine {
	t.Helper()
	e := &tierEngine{t: t}
	testkit.AwaitThat(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		e.conn = c.(*net.UnixConn)
		return true
	}, func() string { return "no tier at " + socket })
	t.Cleanup(func() { e.conn.Close() })
	fd, err := unix.MemfdCreate("pool", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	pool := os.NewFile(uintptr(fd), "pool")
	defer pool.Close()
	require.NoError(t, pool.Truncate(enginePool*enginePage))

	name := tierSpace(t, rank, weights)
	le := binary.LittleEndian
	body := le.AppendUint32(nil, 2) // version
	body = le.AppendUint32(body, page)
	body = le.AppendUint32(body, 1) // piece
	body = le.AppendUint16(body, uint16(len(name)))
	body = le.AppendUint16(body, 1) // region
	body = append(body, name...)
	body = le.AppendUint16(body, 0)
	body = le.AppendUint16(body, 0)
	body = le.AppendUint32(body, enginePage)
	body = le.AppendUint64(body, 0)
	body = le.AppendUint64(body, enginePage/page)
	_, _, err = e.conn.WriteMsgUnix(e.frame(tierHello, body), unix.UnixRights(fd), nil)
	require.NoError(t, err)
	e.answer()
	return e
}

func (e *tierEngine) frame(op uint8, body []byte) []byte {
	e.seq++
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(body)))
	b = append(b, op, 0, 0, 0)
	return append(binary.LittleEndian.AppendUint64(b, e.seq), body...)
}

func (e *tierEngine) answer() []byte {
	e.t.Helper()
	require.NoError(e.t, e.conn.SetReadDeadline(time.Now().Add(patience)))
	head := make([]byte, frameHeader)
	_, err := io.ReadFull(e.conn, head)
	require.NoError(e.t, err)
	body := make([]byte, binary.LittleEndian.Uint32(head))
	_, err = io.ReadFull(e.conn, body)
	require.NoError(e.t, err)
	require.Zero(e.t, binary.LittleEndian.Uint16(head[6:]), "%s", body)
	return body
}

func (e *tierEngine) ask(op uint8, body []byte) []byte {
	e.t.Helper()
	_, err := e.conn.Write(e.frame(op, body))
	require.NoError(e.t, err)
	return e.answer()
}

// store puts the whole pages of a prompt into the tier.
func (e *tierEngine) store(ids []uint32) {
	e.t.Helper()
	le, hashes := binary.LittleEndian, proto.PageHashes(ids, page, "")
	for len(hashes) > 0 {
		n := min(len(hashes), enginePool)
		body := le.AppendUint32(nil, uint32(n))
		for _, h := range hashes[:n] {
			body = append(body, h[:]...)
		}
		for i := range n {
			body = le.AppendUint64(body, uint64(i*page))
		}
		for i, result := range e.ask(tierSet, body)[4:] {
			require.NotZero(e.t, result, "page %d found no room", i)
		}
		_, err := e.conn.Write(e.frame(tierCommit, le.AppendUint64(nil, e.seq)))
		require.NoError(e.t, err)
		e.ask(tierExists, make([]byte, 8)) // a commit has no answer; a question after it has
		hashes = hashes[n:]
	}
}
