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
	"sync"

	"golang.org/x/sys/unix"
)

// maxClients bounds the connections: an engine has three for each rank.
const maxClients = 512

// server accepts engines.
type server struct {
	tier *Tier
	mu   sync.Mutex
	open map[*session]struct{} // guarded by mu
	stop bool                  // guarded by mu
	all  sync.WaitGroup
}

// listen takes the socket's path, also where a sidecar that was killed has left it.
func listen(ctx context.Context, path string) (net.Listener, error) {
	var lc net.ListenConfig
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the folder of the KV tier's socket: %w", err)
	}
	old := umask()
	defer old()
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
		return nil, fmt.Errorf("cannot remove the socket that an ended sidecar left: %w", err)
	}
	return lc.Listen(ctx, "unix", path)
}

// share lets the members of a group use the socket besides its owner; "" is nobody. It is a name or a number.
func share(path, group string) error {
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
	if err := os.Chmod(path, 0o660); err != nil { //nolint:gosec // who is in the group is who the operator named
		return fmt.Errorf("cannot share the KV tier's socket with the group %q: %w", group, err)
	}
	return nil
}

// umask makes files that are made until the returned call the owner's alone.
func umask() func() {
	old := unix.Umask(0o077)
	return func() { unix.Umask(old) }
}

// run serves until ctx ends and all connections have.
func (s *server) run(ctx context.Context) error {
	l, err := listen(ctx, s.tier.cfg.Socket)
	if err != nil {
		return fmt.Errorf("cannot serve the KV tier: %w", err)
	}
	if err := share(s.tier.cfg.Socket, s.tier.cfg.Group); err != nil {
		l.Close()
		return err
	}
	s.open = map[*session]struct{}{}
	defer s.all.Wait()
	defer s.closeAll()
	quit := context.AfterFunc(ctx, func() { l.Close() })
	defer quit()
	defer l.Close()
	s.tier.log.Info("KV tier serves", "socket", s.tier.cfg.Socket, "bytes", len(s.tier.arena.data))
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("cannot accept engines: %w", err)
		}
		s.start(c.(*net.UnixConn))
	}
}

// start runs a connection's goroutine, which ends with the connection.
func (s *server) start(c *net.UnixConn) {
	n := &session{tier: s.tier, conn: c, gets: map[uint64]*lease{}}
	s.mu.Lock()
	full := s.stop || len(s.open) >= maxClients
	if !full {
		s.open[n] = struct{}{}
		s.all.Add(1)
	}
	s.mu.Unlock()
	if full {
		c.Close()
		return
	}
	go func() {
		defer s.all.Done()
		n.run()
		s.mu.Lock()
		delete(s.open, n)
		s.mu.Unlock()
	}()
}

// closeAll ends the connections, and with them their goroutines.
func (s *server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	for n := range s.open {
		n.conn.Close()
	}
}
