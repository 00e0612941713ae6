package store

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
	"github.com/warmpath/warmpath/nixl"
)

// soakNodeEnv and soakEngineEnv make this test binary a sidecar's tier or an engine of TestSoak;
// they hold that process's JSON.
const (
	soakNodeEnv   = "WARMPATH_TIER_SOAK_NODE"
	soakEngineEnv = "WARMPATH_TIER_SOAK_ENGINE"
)

// soakNode configures a store's process.
type soakNode struct {
	Name, Socket, Listen, HTTP string
	Bytes                      int64
	Peers                      []string
	Library                    string // NIXL's; "" is TCP
	Key                        string // file; "" is none
}

// soakMain is the main function of a process of TestSoak. It ends with its standard input.
func soakMain() (code int, mine bool) {
	var run func(context.Context, []byte) error
	spec := os.Getenv(soakNodeEnv)
	switch {
	case spec != "":
		run = soakNodeMain
	case os.Getenv(soakEngineEnv) != "":
		spec, run = os.Getenv(soakEngineEnv), soakEngineMain
	default:
		return 0, false
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := run(ctx, []byte(spec)); err != nil {
		slog.Error("a process of the soak ends", "error", err)
		return 1, true
	}
	return 0, true
}

func soakNodeMain(ctx context.Context, spec []byte) error {
	var n soakNode
	if err := json.Unmarshal(spec, &n); err != nil {
		return err
	}
	cfg := Config{Bytes: n.Bytes, Socket: n.Socket, Listen: n.Listen, Node: n.Name, AskTimeout: time.Second}
	if n.Library != "" {
		if _, err := nixl.StayOnLoopback(); err != nil {
			return err
		}
		library, err := nixl.Open(n.Library)
		if err != nil {
			return err
		}
		cfg.Fabric = library
	}
	if n.Key != "" {
		key, err := tlsconfig.NewSharedKey(n.Key, slog.Default())
		if err != nil {
			return err
		}
		cfg.PeerTLS = sharedKeyTLS(key)
	}
	t, err := New(cfg)
	if err != nil {
		return err
	}
	var peers []Peer
	for _, endpoint := range n.Peers {
		peers = append(peers, Peer{endpoint, endpoint})
	}
	t.SetPeers(peers)
	l, err := net.Listen("tcp", n.HTTP)
	if err != nil {
		return err
	}
	web := &fasthttp.Server{Handler: func(c *fasthttp.RequestCtx) {
		if !t.Handle(c) {
			c.Error("no such page", fasthttp.StatusNotFound)
		}
	}}
	go func() { _ = web.Serve(l) }() // ends with the listener
	defer l.Close()
	if err := t.Run(ctx); err != nil {
		return err
	}
	return t.Close()
}
