package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// ErrFiles means that a certificate, key or list of authorities cannot be used.
var ErrFiles = errors.New("tlsconfig: unusable file")

// maxFile bounds certificates, keys and lists of authorities: those of a whole system have 250 KB.
const maxFile = 1 << 20

// expirySoon is when the log begins to warn: two of the renewals that usual agents try each day
// of the last month.
const expirySoon = 7 * 24 * time.Hour

// loadPair reads a certificate chain and its key, both PEM.
func loadPair(certFile, keyFile string, log *slog.Logger) (*tls.Certificate, error) {
	cert, err := regularfile.Read(certFile, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read certificate: %w: %w", ErrFiles, err)
	}
	key, err := regularfile.Read(keyFile, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read key: %w: %w", ErrFiles, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("cannot use certificate %s with key %s: %w: %w", certFile, keyFile, ErrFiles, err)
	}
	switch left := time.Until(pair.Leaf.NotAfter); {
	case left < 0:
		log.Error("certificate has expired: peers that check it refuse it", "file", certFile, "expired", pair.Leaf.NotAfter)
	case left < expirySoon:
		log.Warn("certificate expires soon", "file", certFile, "expires", pair.Leaf.NotAfter)
	}
	return &pair, nil
}

// loadPool reads a list of authorities, PEM.
func loadPool(file string) (*x509.CertPool, error) {
	pem, err := regularfile.Read(file, maxFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read authorities: %w: %w", ErrFiles, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("cannot use authorities in %s: %w: it holds no certificate", file, ErrFiles)
	}
	return pool, nil
}

// paired refuses a certificate without a key, and the reverse.
func paired(what, cert, key string) error {
	if (cert == "") != (key == "") {
		return fmt.Errorf("cannot use %s: %w: give both the certificate and its key", what, ErrFiles)
	}
	return nil
}
