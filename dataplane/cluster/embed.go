package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer is a NATS server in this process.
type natsServer struct {
	*server.Server
	folder string // to be removed with it; "": it is the operator's
}

// embeddedStart bounds the start of the server; it takes some 40 ms.
const embeddedStart = 20 * time.Second

// Bounds of the embedded JetStream. A cluster's state is far smaller: they keep a bug from
// filling a disk.
const (
	embeddedMemory = 256 << 20
	embeddedStore  = 1 << 30
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
	opts := &server.Options{
		ServerName: strings.ReplaceAll(cfg.Name, " ", "-") + "-" + NewInstance(), Host: host, Port: number, NoSigs: true,
		JetStream: true, StoreDir: folder, JetStreamMaxMemory: embeddedMemory, JetStreamMaxStore: embeddedStore,
	}
	if cfg.Token != "" {
		opts.CustomClientAuthentication, opts.AlwaysEnableNonce = authenticator{cfg.Token, cfg.Prefix}, true
	}
	if opts.TLSConfig, err = embeddedTLS(cfg.TLS); err == nil {
		err = e.start(ctx, opts, cfg)
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

func (e *natsServer) start(ctx context.Context, opts *server.Options, cfg *Config) error {
	if opts.Port > 0 { // the server would only log that it cannot listen
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
		if err != nil {
			return err
		}
		_ = l.Close()
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	e.Server = s
	s.SetLoggerV2(serverLog{cfg.Log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(embeddedStart) || !s.JetStreamEnabled() {
		return errNotReady
	}
	return nil
}

// stop ends the server and waits for it.
func (e *natsServer) stop() {
	if e.Server != nil {
		e.Shutdown()
		e.WaitForShutdown()
	}
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
