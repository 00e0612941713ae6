package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer is a NATS server in this process.
type natsServer struct {
	now    atomic.Pointer[server.Server]
	opts   server.Options // with its port
	down   bool           // it has ended, to be started anew; the writer's own
	folder string         // to be removed with it; "": it is the operator's
}

// InProcessConn implements nats.InProcessConnProvider.
func (e *natsServer) InProcessConn() (net.Conn, error) { return e.now.Load().InProcessConn() }

// embeddedStart bounds the start of the server; it takes some 40 ms.
const embeddedStart = 20 * time.Second

// Bounds of the embedded JetStream. A cluster's state is far smaller: they keep a bug from
// filling a disk.
const (
	embeddedMemory = 256 << 20
	embeddedStore  = 1 << 30
)

// Bounds of the memory that members can make the embedded server use. NATS has 65,536 connections,
// any number of subscriptions and 64 MiB for each connection that does not read.
const (
	// embeddedClients is of all connections: traffic grows with their square, and 1,000 members are
	// too many for a router's processors.
	embeddedClients = 1024
	// embeddedSubs is of one connection. A router or sidecar has some ten, and one more for each
	// question under way.
	embeddedSubs = 256
	// embeddedPending is of one connection, in bytes: a watch begins with all entries of the
	// buckets.
	embeddedPending = 2 * maxHeld
	// embeddedPing finds connections without another end within three times that.
	embeddedPing = 20 * time.Second
)

// embed starts a server. Its listener is for other processes; this one connects without a
// socket.
func embed(ctx context.Context, cfg *Config) (*natsServer, error) {
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 0 || number > 65535 {
		return nil, fmt.Errorf("%w: port %q: want 0 to 65535", ErrConfig, port)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	e := &natsServer{}
	folder := cfg.StoreDir
	if folder != "" { // the server would not report an unusable folder, and never get ready
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("cannot use the embedded NATS's folder: %w", err)
		}
	} else { // the server keeps notes of its own even where all buckets are in memory
		if folder, err = os.MkdirTemp("", "warmpath-nats-"); err != nil {
			return nil, fmt.Errorf("cannot make a folder for the embedded NATS: %w", err)
		}
		e.folder = folder
	}
	e.opts = server.Options{
		ServerName: strings.ReplaceAll(cfg.Name, " ", "-") + "-" + NewInstance(), Host: host, Port: number, NoSigs: true,
		MaxConn: embeddedClients, MaxSubs: embeddedSubs, MaxPending: embeddedPending, PingInterval: embeddedPing,
		JetStream: true, StoreDir: folder, JetStreamMaxMemory: embeddedMemory, JetStreamMaxStore: embeddedStore,
	}
	if cfg.Token != "" {
		e.opts.CustomClientAuthentication, e.opts.AlwaysEnableNonce = &authenticator{secret: cfg.Token, prefix: cfg.Prefix, embedded: e, log: cfg.Log}, true
	}
	if e.opts.TLSConfig, err = embeddedTLS(cfg.TLS); err == nil {
		err = e.start(ctx, cfg.Log)
	}
	if err != nil {
		e.stop()
		return nil, fmt.Errorf("cannot start the embedded NATS on %s: %w", cfg.Listen, err)
	}
	return e, nil
}

func embeddedTLS(files TLS) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil //nolint:nilnil // no TLS
	}
	return server.GenTLSConfig(&server.TLSConfigOpts{
		CertFile: files.Cert, KeyFile: files.Key, CaFile: files.CA, Verify: files.CA != "", MinVersion: tls.VersionTLS12,
	})
}

var errNotReady = errors.New("it does not get ready: is the port taken, and can its folder be written?")

func (e *natsServer) start(ctx context.Context, log *slog.Logger) error {
	if e.opts.Port > 0 { // the server would only log that it cannot listen
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(e.opts.Host, strconv.Itoa(e.opts.Port)))
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	opts := e.opts // which the server changes
	s, err := server.NewServer(&opts)
	if err != nil {
		return err
	}
	e.now.Store(s)
	s.SetLoggerV2(serverLog{log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(embeddedStart) || !s.JetStreamEnabled() {
		return errNotReady
	}
	if at, ok := s.Addr().(*net.TCPAddr); ok {
		e.opts.Port = at.Port
	}
	return nil
}

// reopen starts the server anew where a write into its store has failed, as on a full disk: the
// server (2.15) takes no write for that stream any more. It does nothing while the disk is full.
func (e *natsServer) reopen(ctx context.Context, log *slog.Logger) error {
	if !e.down {
		failed := slices.ContainsFunc(e.now.Load().Healthz(&server.HealthzOptions{Details: true}).Errors, func(err server.HealthzError) bool {
			return err.Type == server.HealthzErrorStream && strings.Contains(err.Error, "write error")
		})
		if !failed {
			return nil
		}
		probe := filepath.Join(e.opts.StoreDir, "probe")
		err := os.WriteFile(probe, make([]byte, maxRecord), 0o600)
		if err = errors.Join(err, os.Remove(probe)); err != nil {
			return fmt.Errorf("cannot write marks and records: make room in the folder of the embedded NATS: %w", err)
		}
		log.Warn("the embedded NATS is started anew: it could not write, as on a full disk")
		e.end()
	}
	e.down = true
	if err := e.start(ctx, log); err != nil {
		e.end()
		return fmt.Errorf("cannot start the embedded NATS anew: %w", err)
	}
	e.down = false
	return nil
}

// end ends the server and waits for it.
func (e *natsServer) end() {
	if s := e.now.Load(); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// stop ends the server for good.
func (e *natsServer) stop() {
	e.end()
	if e.folder != "" {
		_ = os.RemoveAll(e.folder)
	}
}

// serverLog passes on the server's warnings.
type serverLog struct{ log *slog.Logger }

func (serverLog) Noticef(string, ...any) {}
func (serverLog) Debugf(string, ...any)  {}
func (serverLog) Tracef(string, ...any)  {}

func (l serverLog) Warnf(format string, v ...any) {
	l.log.Warn("embedded NATS", "says", fmt.Sprintf(format, v...))
}

func (l serverLog) Errorf(format string, v ...any) {
	l.log.Error("embedded NATS", "says", fmt.Sprintf(format, v...))
}

func (l serverLog) Fatalf(format string, v ...any) { l.Errorf(format, v...) }
