//go:build cgo && linux

package nixl_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/nixl"
)

// peerEnv makes this test binary a peer process: it offers memory, prints its metadata and
// obeys commands until its input ends.
const peerEnv = "WARMPATH_NIXL_PEER"

func sum(data []byte) string {
	h := fnv.New64a()
	_, _ = h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// peerMain runs a peer. The variable peerEnv holds the size and the seed of its memory: "SIZE
// SEED".
func peerMain() int {
	if err := servePeer(os.Getenv(peerEnv)); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

func servePeer(spec string) error {
	var size int
	var seed uint64
	if _, err := fmt.Sscan(spec, &size, &seed); err != nil {
		return err
	}
	lib, err := nixl.Open(os.Getenv(nixl.EnvLibrary))
	if err != nil {
		return err
	}
	agent, err := nixl.NewAgent(lib, nixl.Config{Name: "peer"})
	if err != nil {
		return err
	}
	mapping, err := nixl.NewMapping("peer", size)
	if err != nil {
		return err
	}
	fill(mapping.Bytes(), seed)
	memory, err := agent.Register(mapping)
	if err != nil {
		return err
	}
	metadata, err := agent.Metadata()
	if err != nil {
		return err
	}
	fmt.Println("metadata", hex.EncodeToString(metadata))
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		if err := obey(memory, commands.Text()); err != nil {
			return err
		}
	}
	return agent.Close()
}

// obey runs one command of the test.
func obey(memory *nixl.Memory, command string) error {
	word, rest, _ := strings.Cut(command, " ")
	switch word {
	case "sum":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		fmt.Println("sum", sum(memory.Bytes()[:n]))
	case "unmap":
		if err := unix.Munmap(memory.Bytes()); err != nil {
			return err
		}
		fmt.Println("unmapped now")
	}
	return nil
}

// peer is a process at the other end.
type peer struct {
	cmd      *exec.Cmd
	in       *os.File
	out      *bufio.Scanner
	metadata []byte
}

// startPeer starts a peer and waits for its metadata.
func startPeer(tb testing.TB, library string, size int, seed uint64) *peer {
	tb.Helper()
	read, write, err := os.Pipe()
	require.NoError(tb, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", peerEnv, size, seed), nixl.EnvLibrary+"="+library)
	cmd.Stdin, cmd.Stderr = read, os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(tb, err)
	require.NoError(tb, cmd.Start())
	read.Close()
	p := &peer{cmd: cmd, in: write, out: bufio.NewScanner(stdout)}
	p.out.Buffer(nil, 8<<20)
	tb.Cleanup(p.kill)
	p.metadata, err = hex.DecodeString(p.answer(tb, "metadata"))
	require.NoError(tb, err)
	return p
}

// answer reads the peer's next line, which must begin with a word.
func (p *peer) answer(tb testing.TB, word string) string {
	tb.Helper()
	if !p.out.Scan() {
		tb.Fatalf("the peer ended: %v", p.out.Err())
	}
	rest, ok := strings.CutPrefix(p.out.Text(), word+" ")
	if !ok {
		tb.Fatalf("the peer says %q, want %s", p.out.Text(), word)
	}
	return rest
}

func (p *peer) ask(tb testing.TB, command, word string) string {
	tb.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		tb.Fatal(err)
	}
	return p.answer(tb, word)
}

func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.in.Close()
}
