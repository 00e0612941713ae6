package store

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// Config configures a Store. Bytes is required; the zero values of all other fields are sane.
type Config struct {
	Bytes  int64  // of host memory for pages, at least 4 MiB; rounded up to whole slabs
	Socket string // Unix socket for the engines of this node; "" serves none
	// Group, by name or number, whose members may use the socket; "": the user of this process
	// alone.
	SocketGroup string
	Listen      string // host:port for the stores of other nodes; "" serves none
	Node        string // name of this node, for its NIXL agents
	// Advertise is the host under which other nodes reach Listen, where that is all addresses.
	Advertise  string
	Fabric     nixl.Fabric   // nil: pages move between nodes by TCP
	AskTimeout time.Duration // bound of an engine's question to other stores; 0 is 100 ms
	// Tokens a second that an engine computes: slower links are not used for engines' questions; 0:
	// all are.
	PrefillRate float64
	Log         *slog.Logger // nil: slog's default
	Now         func() time.Time
	PeerTLS     PeerTLS // authentication of other nodes' stores, and to them
	Insecure    bool    // Listen may be an address that other machines reach, without PeerTLS

	// Of one pull; 0 is defaultPullTimeout, and tests on busy machines have more.
	pullTimeout time.Duration
}

// ErrConfig is a setting out of its range.
var ErrConfig = errors.New("store: bad setting")

// ErrClosed is the answer of a closed store.
var ErrClosed = errors.New("store: closed")

const minBytes = minSlabs * minSlab

// setDefaults checks the settings and fills in defaults.
func (c *Config) setDefaults() error {
	if c.Bytes < minBytes {
		return fmt.Errorf("%w: %d bytes for the KV tier, and the least are %d", ErrConfig, c.Bytes, minBytes)
	}
	if c.AskTimeout == 0 {
		c.AskTimeout = defaultAskTimeout
	}
	if c.pullTimeout == 0 {
		c.pullTimeout = defaultPullTimeout
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
