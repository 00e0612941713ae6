package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"unsafe"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/nixl"
)

// nixlPeer is the second process, as its first line of output describes it.
type nixlPeer struct {
	Metadata []byte `json:"metadata"`
	PID      int    `json:"pid"`
	Addr     uint64 `json:"addr"` // of its memory, for process_vm_readv
	TCP      string `json:"tcp"`  // sends as many bytes as 8 little-endian bytes ask for

	cmd *exec.Cmd
	in  io.Closer
}

// serve is the second process. It ends with its standard input, so that it never stays behind.
func (o *nixlOptions) serve(cmd *cobra.Command) error {
	lib, _, err := o.load()
	if err != nil {
		return err
	}
	agent, memory, err := o.open(lib, "warmpath-bench-peer")
	if err != nil {
		return err
	}
	defer func() { _ = agent.Close() }() // the process ends next
	me, err := offerMemory(agent, memory)
	if err != nil {
		return err
	}
	defer me.in.Close()
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(me); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, cmd.InOrStdin())
	return err
}

// offerMemory makes the process's memory readable in all ways until in is closed.
func offerMemory(agent *nixl.Agent, memory *nixl.Memory) (*nixlPeer, error) {
	metadata, err := agent.Metadata()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go sendMemory(listener, memory.Bytes())
	return &nixlPeer{
		Metadata: metadata, PID: os.Getpid(), TCP: listener.Addr().String(),
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory.Bytes())))), in: listener,
	}, nil
}

// sendMemory answers each connection with the bytes that it asks for, until the listener is closed.
func sendMemory(listener net.Listener, memory []byte) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			var size [8]byte
			for {
				if _, err := io.ReadFull(conn, size[:]); err != nil {
					return
				}
				n := min(binary.LittleEndian.Uint64(size[:]), uint64(len(memory)))
				if _, err := conn.Write(memory[:n]); err != nil {
					return
				}
			}
		}()
	}
}

// startPeer starts this program again, as the second process.
func (o *nixlOptions) startPeer(ctx context.Context) (*nixlPeer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "bench", "nixl", "--peer", "--nixl-lib", o.library, "--backend", o.backend,
		"--batch", strconv.Itoa(o.batch), "--largest", o.largest)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the second process: %w", err)
	}
	p := &nixlPeer{cmd: cmd, in: in}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(p); err != nil {
		return nil, errors.Join(fmt.Errorf("the second process says nothing of itself: %w", err), p.end())
	}
	return p, nil
}

func (p *nixlPeer) end() error {
	return errors.Join(p.in.Close(), p.cmd.Wait())
}
