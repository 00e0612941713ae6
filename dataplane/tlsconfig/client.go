package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"
)

// ClientFiles are the authorities and the certificate of connections to workers.
type ClientFiles struct {
	CA        string // PEM; authorities of the workers' certificates; "": those of the system
	Cert, Key string // PEM; shown to workers that ask; "": nothing to show
	Insecure  bool   // take any certificate: anyone in between can read and change everything
}

// Client makes the settings of connections to workers.
type Client struct {
	insecure bool
	pool     *reloaded[*x509.CertPool]   // nil: the system's
	pair     *reloaded[*tls.Certificate] // nil: none
}

// NewClient reads the files.
func NewClient(files ClientFiles, log *slog.Logger) (*Client, error) {
	if err := paired("the certificate for workers", files.Cert, files.Key); err != nil {
		return nil, err
	}
	c := &Client{insecure: files.Insecure}
	var err error
	if files.CA != "" {
		c.pool, err = reloadOnChange(log, "authorities of workers", []string{files.CA}, func() (*x509.CertPool, error) { return loadPool(files.CA) })
		if err != nil {
			return nil, err
		}
	}
	if files.Cert != "" {
		c.pair, err = reloadOnChange(log, "certificate for workers", []string{files.Cert, files.Key}, func() (*tls.Certificate, error) {
			return loadPair(files.Cert, files.Key, log)
		})
	}
	return c, err
}

// Reload reads the files again where they have changed, before a worker is connected to.
func (c *Client) Reload() {
	if c.pool != nil {
		c.pool.get()
	}
	if c.pair != nil {
		c.pair.get()
	}
}

// Config returns the settings for one worker, whose certificate must be valid for host, a name
// or an address. They remember the worker's last session, so that further connections cost no
// signature.
func (c *Client) Config(host string) *tls.Config {
	cfg := &tls.Config{
		ServerName: host, // as SNI where it is a name
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		// Each worker has settings of its own: two workers of one name and two ports do not
		// share sessions.
		ClientSessionCache:          tls.NewLRUClientSessionCache(1),
		DynamicRecordSizingDisabled: true,
	}
	if c.pair != nil {
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair.get(), nil }
	}
	switch {
	case c.insecure:
		cfg.InsecureSkipVerify = true
	case c.pool != nil:
		// crypto/tls would check against a list that never changes. This check replaces it, for
		// resumed sessions too.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = func(state tls.ConnectionState) error { return verify(state, c.pool.get(), host) }
	}
	return cfg
}

var errNoCertificate = errors.New("secure: the worker shows no certificate")

// verify checks a worker's certificate as crypto/tls does.
func verify(state tls.ConnectionState, roots *x509.CertPool, host string) error {
	if len(state.PeerCertificates) == 0 {
		return errNoCertificate
	}
	opts := x509.VerifyOptions{Roots: roots, DNSName: host, Intermediates: x509.NewCertPool(), CurrentTime: time.Now()}
	for _, cert := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(cert)
	}
	if _, err := state.PeerCertificates[0].Verify(opts); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}
