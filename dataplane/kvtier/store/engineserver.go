package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// maxEngines bounds the connections: an engine has three for each rank.
const maxEngines = 512

// engineServer serves the engines of this node.
type engineServer struct {
	cfg      *Config
	pages    *pages
	leases   *leases
	peers    *peerClient
	clear    func(name string, wait time.Duration) (pages, told, missing int)
	stats    func() Stats
	instance uint64
	counts   *tally
	reads    rate // from a get to its release: an engine copies meanwhile
}

// find returns the number of leading pages that are present or being pulled. It asks other nodes
// for the rest, for wait at most, and counts the pages that will come.
func (s *engineServer) find(ns uint32, hashes []proto.Hash, wait time.Duration) int {
	n := s.lookup(ns, hashes)
	n += s.peers.incoming.leading(ns, hashes[n:])
	if n == len(hashes) || wait <= 0 {
		return n
	}
	var parent *proto.Hash
	if n > 0 {
		parent = &hashes[n-1]
	}
	return n + s.peers.find(ns, hashes[n:], parent, wait, false)
}

// lookup returns the number of leading pages that are present.
func (s *engineServer) lookup(ns uint32, hashes []proto.Hash) int {
	n := s.pages.prefix(ns, hashes)
	s.counts.add(func(c *Stats) {
		c.Lookups++
		c.Asked += int64(len(hashes))
		c.Found += int64(n)
	})
	return n
}

// run serves until ctx ends and all connections have ended.
func (s *engineServer) run(ctx context.Context) error {
	l, err := listenUnix(ctx, s.cfg.Socket)
	if err != nil {
		return fmt.Errorf("cannot serve the KV tier: %w", err)
	}
	if err := shareSocket(s.cfg.Socket, s.cfg.SocketGroup); err != nil {
		l.Close()
		return err
	}
	s.cfg.Log.Info("KV tier serves", "socket", s.cfg.Socket, "bytes", len(s.pages.arena.data))
	err = serveConnections(ctx, l, maxEngines, func(c net.Conn) {
		(&engineSession{server: s, conn: c.(*net.UnixConn), reads: map[uint64]read{}}).run()
	})
	if err != nil {
		return fmt.Errorf("cannot accept engines: %w", err)
	}
	return nil
}

// listenUnix listens on a path, also where a killed sidecar has left a socket.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the KV tier's socket: %w", err)
	}
	old := unix.Umask(0o077) // the socket is this user's alone
	defer unix.Umask(old)
	l, err := lc.Listen(ctx, "unix", path)
	if err == nil || !errors.Is(err, unix.EADDRINUSE) {
		return l, err
	}
	var d net.Dialer
	if c, dialed := d.DialContext(ctx, "unix", path); dialed == nil {
		c.Close()
		return nil, fmt.Errorf("cannot listen on %s: another sidecar does; give this one its own --kv-tier-socket", path)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("cannot remove the socket of a sidecar that has ended: %w", err)
	}
	return lc.Listen(ctx, "unix", path)
}

// shareSocket lets the members of a group use the socket; "" is no group. A group is a name or a
// number.
func shareSocket(path, group string) error {
	if group == "" {
		return nil
	}
	id, err := strconv.Atoi(group)
	if err != nil {
		found, err := user.LookupGroup(group)
		if err != nil {
			return fmt.Errorf("%w: the KV tier's socket is to be shared with the group %q: %w", ErrConfig, group, err)
		}
		if id, err = strconv.Atoi(found.Gid); err != nil {
			return fmt.Errorf("%w: the group %q: %w", ErrConfig, group, err)
		}
	}
	if err := os.Chown(path, -1, id); err != nil {
		return fmt.Errorf("cannot share the KV tier's socket with the group %q: run the sidecar as root, or as a member of it: %w", group, err)
	}
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // the operator has named the group
		return fmt.Errorf("cannot share the KV tier's socket with the group %q: %w", group, err)
	}
	return nil
}
