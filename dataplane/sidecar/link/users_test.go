//go:build cgo && linux

package link_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/sidecar/link"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

// endEnv makes this test binary one end of a link: "offer", or the offer of the other end.
const endEnv = "WARMPATH_LINK_END"

const endBytes = 4 << 20

// endMain is the main function of such a process. The offering end lives until its input ends.
func endMain(spec string) int {
	if err := runEnd(spec); err != nil {
		_ = json.NewEncoder(os.Stdout).Encode(link.Offer{Refused: err.Error()}) // the reader may be gone
		return 1
	}
	return 0
}

func runEnd(spec string) error {
	lib, err := nixl.Open(os.Getenv(nixl.EnvLibrary))
	if err != nil {
		return err
	}
	agent, err := nixl.NewAgent(lib, nixl.Config{Name: "end"})
	if err != nil {
		return err
	}
	mapping, err := nixl.NewMapping("end", endBytes)
	if err != nil {
		return err
	}
	memory, err := agent.Register(mapping)
	if err != nil {
		return err
	}
	if spec == "offer" {
		metadata, err := agent.Metadata()
		if err != nil {
			return err
		}
		fill(memory.Bytes())
		if err := json.NewEncoder(os.Stdout).Encode(link.Offer{Facts: link.ReadFacts("/", "there"), Metadata: metadata, Memory: memory.ID()}); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	var there link.Offer
	if err := json.Unmarshal([]byte(spec), &there); err != nil {
		return err
	}
	l, err := tryEnd(agent, memory, &there)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(l)
}

func fill(b []byte) {
	for i := range b {
		b[i] = byte(i>>12) + byte(i)
	}
}

// tryEnd reads the offer of the other end, checks the bytes, and measures.
func tryEnd(agent *nixl.Agent, memory *nixl.Memory, there *link.Offer) (l cluster.Link, err error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	remote, err := agent.Load(there.Metadata)
	if err != nil {
		return l, err
	}
	theirs, err := remote.Memory(there.Memory)
	if err != nil {
		return l, err
	}
	// No more than 1 MiB: UCX ends a process that is read over TCP when its reader stalls.
	if _, err := remote.Transfer(ctx, nixl.Read, memory, theirs, []nixl.Piece{{Len: 1 << 20}}); err != nil {
		return l, err
	}
	want := make([]byte, 1<<20)
	fill(want)
	if !bytes.Equal(want, memory.Bytes()[:1<<20]) {
		return l, errors.New("what was read is not what the other end has")
	}
	here := link.ReadFacts("/", "here")
	return link.Probe(ctx, remote, memory, theirs, link.Ends{Here: &here, There: &there.Facts, Largest: 1 << 20})
}

// measured returns the link between processes of two kinds.
func measured(t *testing.T, binary, library string, here, there nixltest.User) cluster.Link {
	t.Helper()
	start := func(as nixltest.User, spec string) *bufio.Reader {
		c := exec.Command(binary)
		c.Env = append(os.Environ(), endEnv+"="+spec, nixl.EnvLibrary+"="+library, "UCX_NET_DEVICES=lo", "HOME="+filepath.Dir(binary))
		_, out := as.Start(t, c)
		return bufio.NewReader(out)
	}
	read := func(from *bufio.Reader, into any) {
		t.Helper()
		line, err := from.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(line), into)
		}
		if err != nil || strings.Contains(line, `"refused"`) {
			t.Fatalf("a process says %q: %v", line, err)
		}
	}
	offers := start(there, "offer")
	var offer link.Offer
	read(offers, &offer)
	spec, err := json.Marshal(offer)
	require.NoError(t, err)
	probes := start(here, string(spec))
	var l cluster.Link
	read(probes, &l)
	return l
}

// TestUsersAndNamespaces measures UCX between processes that the kernel separates: the bytes are
// right, and the cause is named.
func TestUsersAndNamespaces(t *testing.T) {
	nixltest.RequireRoot(t)
	binary, library := nixltest.CopyForAllUsers(t, nixltest.Library(t))
	nobody, other := nixltest.Nobody(), nixltest.User{UID: 65533, GID: 65533}
	group, able := nobody, nobody
	group.GID, able.Caps = 65533, []uintptr{14} // CAP_IPC_LOCK
	tests := []struct {
		name        string
		here, there nixltest.User
		path        link.Path
		why         string // in the warning; "" is none
	}{
		{"root", nixltest.User{}, nixltest.User{}, link.CMA, ""},
		{"one user", nobody, nobody, link.CMA, ""},
		{"root reads a user", nixltest.User{}, nobody, link.CMA, ""},
		{"a user reads root", nobody, nixltest.User{}, link.TCP, "user ids 65534 and 0 differ"},
		{"two users", nobody, other, link.TCP, "user ids 65534 and 65533 differ"},
		{"one user, two groups", nobody, group, link.TCP, "group ids 65534 and 65533 differ"},
		{"one user, capabilities there", nobody, able, link.TCP, "capabilities (0x4000)"},
		{"one user, capabilities here", able, nobody, link.CMA, ""},
		{"a PID namespace there", nixltest.User{}, nixltest.User{NewPIDs: true}, link.TCP, "two PID namespaces"},
		{"two PID namespaces", nixltest.User{NewPIDs: true}, nixltest.User{NewPIDs: true}, link.TCP, "two PID namespaces"},
		{"a rootless container reads root", nixltest.User{NewUsers: true}, nixltest.User{}, link.TCP, "two user namespaces"},
		{"a user in a PID namespace of its own", nixltest.User{}, nixltest.User{UID: 65534, GID: 65534, NewPIDs: true}, link.TCP, "two PID namespaces"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := measured(t, binary, library, test.here, test.there)
			if l.Path != string(test.path) || (test.why == "") != (l.Slow == "") || !strings.Contains(l.Slow, test.why) {
				t.Errorf("over %s, %q; want %s, %q", l.Path, l.Slow, test.path, test.why)
			}
			t.Logf("%s: reads %.2f GB/s, writes %.2f GB/s, %.0f µs: %s", l.Path, l.Read/1e9, l.Write/1e9, l.Latency*1e6, l.Slow)
		})
	}
}
