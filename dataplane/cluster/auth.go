package cluster

import (
	"crypto/subtle"
	"encoding/base64"

	"github.com/nats-io/nats-server/v2/server"
)

// authenticator admits clients to the embedded server: with the cluster's secret to all, with a
// token made of it to what its role may do.
type authenticator struct{ secret, prefix string }

var _ server.Authentication = authenticator{}

// Check implements server.Authentication.
func (a authenticator) Check(c server.ClientAuthentication) bool {
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
	c.RegisterUser(&server.User{Username: o.Username, Permissions: h.permissions(a.prefix)})
	return true
}
