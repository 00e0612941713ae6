package config

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTrust: with keys, trust is a matter of each key.
func TestTrust(t *testing.T) {
	assert.NoError(t, Check(Config{Requests: Requests{TrustPriority: true}}))
	assert.ErrorContains(t, Check(Config{Requests: Requests{TrustPriority: true, Clients: Clients{Keys: "keys"}}}), "priority=N")
	assert.NoError(t, Check(Config{Requests: Requests{Clients: Clients{Keys: "keys", CacheSalt: true}}}))
	for _, c := range []Clients{{JWKS: "f"}, {JWKS: "f", Issuer: "i"}, {JWKS: "f", TokenAudience: "a"}, {Issuer: "i", TokenAudience: "a"}, {Issuer: "i"}, {TokenAudience: "a"}} {
		assert.ErrorContains(t, Check(Config{Requests: Requests{Clients: c}}), "all three or none")
	}
	assert.NoError(t, Check(Config{Requests: Requests{Clients: Clients{JWKS: "f", Issuer: "i", TokenAudience: "a", CacheSalt: true}}}))
	assert.ErrorContains(t, Check(Config{Requests: Requests{Clients: Clients{CacheSalt: true}}}), "--client-keys")
}

// TestAudience: the fields of answers are for all only where no other machine reaches the router.
func TestAudience(t *testing.T) {
	for listen, want := range map[string]string{
		"": AudienceAll, "127.0.0.1:1": AudienceAll, "localhost:1": AudienceAll, "[::1]:1": AudienceAll,
		":1": AudienceOperators, "0.0.0.0:1": AudienceOperators, "[::]:1": AudienceOperators, "10.0.0.1:1": AudienceOperators, "router:1": AudienceOperators,
	} {
		c := Config{Listen: listen, Operator: Operator{Key: "x"}}
		c.SetDefaults()
		assert.Equal(t, want, c.Requests.Audience, listen)
	}
	for _, value := range []string{AudienceAll, AudienceOperators, AudienceNone} {
		c := Config{Listen: "0.0.0.0:1", Operator: Operator{Key: "x"}, Requests: Requests{Audience: value}}
		c.SetDefaults()
		assert.Equal(t, value, c.Requests.Audience)
		assert.NoError(t, c.Check())
	}
	assert.ErrorContains(t, Check(Config{Requests: Requests{Audience: "some"}}), "--answer-headers")
}

// TestGivenSockets: the address of a socket that the process was given decides what is exposed, and
// not the setting that it replaces.
func TestGivenSockets(t *testing.T) {
	open, err := net.Listen("tcp", ":0")
	require.NoError(t, err)
	defer open.Close()
	for _, given := range []Sockets{{Clients: open}, {Operator: open}} {
		c := Config{Listen: "127.0.0.1:1", Operator: Operator{Listen: "127.0.0.1:2"}, Sockets: &given}
		if given.Operator == nil {
			c.Operator.Listen = ""
			b := c
			b.SetDefaults()
			assert.Equal(t, AudienceOperators, b.Requests.Audience)
		}
		assert.ErrorIs(t, Check(c), ErrExposed)
		c.Operator.Key = "x"
		assert.NoError(t, Check(c))
	}
}
