package tlsconfig

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// ErrKey means that the other side does not know the shared key.
var ErrKey = errors.New("secure: the other side has another key")

// MinKey is the least number of characters of a shared key. A client is shown a value derived
// from it, against which it could try keys; 32 random characters are beyond that.
const MinKey = 32

// SharedKey lets processes that know one secret trust each other, without an authority: each
// derives the same Ed25519 key from it, shows a certificate of that key, and accepts no other
// one. So TLS 1.3 proves to both sides that the other one knows the secret, and encrypts.
type SharedKey struct {
	current func() *keyring
}

// keyring holds the keys of a list of secrets: the first is shown, all are accepted, so that a
// key can be changed while processes run.
type keyring struct {
	server, client *tls.Config
	taken          []ed25519.PublicKey
}

// NewSharedKey reads keys from a file, one in each line. The first is shown to others, all are
// accepted from them. To change a key, add the new one after the old one on each node, then put
// it first, then remove the old one. The file is read again when it changes.
func NewSharedKey(file string, log *slog.Logger) (*SharedKey, error) {
	WarnReadable(log, file)
	f, err := reloadOnChange(log, "shared key", []string{file}, func() (*keyring, error) {
		text, err := regularfile.Read(file, maxFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read key: %w: %w", ErrFiles, err)
		}
		ring, err := newKeyring(strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' || r == '\r' }))
		if err != nil {
			return nil, fmt.Errorf("cannot use the key in %s: %w: %w", file, ErrFiles, err)
		}
		return ring, nil
	})
	if err != nil {
		return nil, err
	}
	return &SharedKey{f.get}, nil
}

// SharedKeyOf makes a key of one secret, of at least [MinKey] characters.
func SharedKeyOf(secret string) (*SharedKey, error) {
	ring, err := newKeyring([]string{secret})
	if err != nil {
		return nil, err
	}
	return &SharedKey{func() *keyring { return ring }}, nil
}

var errShortKey = errors.New("it wants at least 32 characters, as `openssl rand -hex 32` makes them")

func newKeyring(secrets []string) (*keyring, error) {
	if len(secrets) == 0 {
		return nil, errShortKey
	}
	k := &keyring{}
	var shown *tls.Certificate
	for _, secret := range secrets {
		secret = strings.TrimSpace(secret)
		if len(secret) < MinKey {
			return nil, errShortKey
		}
		cert, err := certificateOf(secret)
		if err != nil {
			return nil, err
		}
		if shown == nil {
			shown = cert
		}
		k.taken = append(k.taken, cert.PrivateKey.(ed25519.PrivateKey).Public().(ed25519.PublicKey))
	}
	k.server = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*shown}, ClientAuth: tls.RequireAnyClientCert, VerifyConnection: k.verify,
		// A ticket would outlive its key.
		SessionTicketsDisabled: true, DynamicRecordSizingDisabled: true,
	}
	k.client = &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*shown}, VerifyConnection: k.verify, DynamicRecordSizingDisabled: true,
		InsecureSkipVerify: true, // names and authorities do not count: the key is compared
	}
	return k, nil
}

// certificateOf makes a new certificate in each process; its key is the same in all.
func certificateOf(secret string) (*tls.Certificate, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "warmpath shared key, version 1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "warmpath shared key"},
		// RFC 5280 4.1.2.5: no end.
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	raw, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, nil
}

// verify compares the key that the other side has proved to have.
func (k *keyring) verify(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return ErrKey
	}
	theirs, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || !slices.ContainsFunc(k.taken, func(own ed25519.PublicKey) bool { return own.Equal(theirs) }) {
		return ErrKey
	}
	return nil
}

// Server returns the settings of a listener, which follow the file.
func (k *SharedKey) Server() *tls.Config {
	base := k.current().server.Clone()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.current().server, nil }
	return base
}

// Client returns the settings of the next connection.
func (k *SharedKey) Client() *tls.Config { return k.current().client }
