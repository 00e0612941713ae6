package cluster

import (
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// authenticator admits clients to the embedded server: with the cluster's secret to all subjects,
// with a token made of it to the subjects of its role.
type authenticator struct {
	secret, prefix string
	embedded       *natsServer
	log            *slog.Logger

	mu   sync.Mutex
	of   *server.Server      // of the connections in open; guarded by mu
	open map[string][]uint64 // connections of each user, some ended; guarded by mu
}

var _ server.Authentication = (*authenticator)(nil)

// connections is the most that the holder may have at once. A process has one, and one more for
// each time that it was cut off without the server seeing it. Processes of routers may share a
// name, and an operator's are commands.
func (h holder) connections() int {
	if h.role == RoleNode {
		return 8
	}
	return 64
}

// admit notes a connection of a holder; false: it has too many.
func (a *authenticator) admit(h holder, id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.embedded.now.Load(); now != a.of {
		a.of, a.open = now, map[string][]uint64{}
	}
	user := h.user()
	open := slices.DeleteFunc(a.open[user], func(id uint64) bool { return a.of.GetClient(id) == nil })
	full := len(open) >= h.connections()
	if !full {
		open = append(open, id)
	}
	a.open[user] = open
	return !full
}

// Check implements server.Authentication.
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	if c.Kind() != server.CLIENT {
		return false
	}
	o := c.GetOpts()
	if o.Nkey == "" {
		return subtle.ConstantTimeCompare([]byte(o.Token), []byte(a.secret)) == 1
	}
	h, err := parseUser(o.Username)
	if err != nil || len(a.secret) < MinSecret {
		return false
	}
	pair, err := h.keyPair(a.secret)
	if err != nil {
		return false
	}
	public, err := pair.PublicKey()
	if err != nil || public != o.Nkey {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(o.Sig)
	nonce := c.GetNonce()
	if err != nil || len(nonce) == 0 || pair.Verify(nonce, signature) != nil {
		return false
	}
	if !a.admit(h, c.GetID()) {
		a.log.Warn("a token of the cluster has too many connections", "holder", o.Username, "most", h.connections())
		return false
	}
	c.RegisterUser(&server.User{Username: o.Username, Permissions: h.permissions(a.prefix)})
	return true
}
