package sidecar

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// socketAccess is the knowledge of a socket's server about API keys.
type socketAccess struct {
	refused bool        // it wants one
	key     *worker.Key // that it was shown, or would be; a change of it is a reason to ask again
	keyed   bool        // its worker is shown the key
}

// identify asks a socket's server whether it is a worker. Any process of this machine may listen:
// one that does not refuse gets no key, and one that does gets it only if a line of the file names
// its URL, or if it could read the file itself.
func (d *discovery) identify(ctx context.Context, c *probedSocket, url string) (*worker.Info, error) {
	settings := worker.Config{Timeout: d.wait, TLS: d.cfg.Probing.TLS, Dial: d.cfg.Probing.Dial}
	info, err := worker.Identify(ctx, url, settings)
	if !errors.Is(err, worker.ErrKeyRefused) {
		return info, err
	}
	keys := d.cfg.Probing.Keys
	c.access = socketAccess{refused: true, key: keys.Of(c.baseURL())}
	if !keys.Named(url) && !d.processes.trusted(c.pid) {
		return nil, err
	}
	settings.Key = keys.Of
	info, err = worker.Identify(ctx, url, settings)
	c.access.keyed = err == nil
	return info, err
}

// noticeKey has a socket asked again that refused, once it has another key.
func (d *discovery) noticeKey(c *probedSocket, now time.Time) {
	if c.access.refused && !c.access.keyed && d.cfg.Probing.Keys.Of(c.baseURL()) != c.access.key {
		c.access, c.next, c.asks = socketAccess{}, now, 0
	}
}

// scheme is that of the URL of a socket's server, as far as its command tells.
func (c *probedSocket) scheme() string {
	if strings.Contains(c.command, "--ssl-certfile") {
		return "https://"
	}
	return "http://"
}

// baseURL is the URL at which a socket is asked first.
func (c *probedSocket) baseURL() string { return c.scheme() + c.dialAddresses()[0] }

// mayHaveKey reports whether the worker at a URL is shown the key of all: the operator has named
// it, or it refused to describe itself without and is trusted.
func (d *discovery) mayHaveKey(url string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keyed[url]
}
