package tlsconfig

import (
	"crypto/tls"
	"log/slog"
)

// ServerFiles are the certificate of a listener and the authorities of its clients.
type ServerFiles struct {
	Cert, Key string // PEM; Cert with the intermediate certificates behind its own
	// PEM; clients must show a certificate that one of these authorities signed; "": none is asked
	// for.
	ClientCA string
}

// protocols are offered to, and accepted from, peers that choose by ALPN. Without it some would
// choose HTTP/2.
var protocols = []string{"http/1.1"}

// Server returns the settings of a listener.
func Server(files ServerFiles, log *slog.Logger) (*tls.Config, error) {
	if err := paired("the certificate for clients", files.Cert, files.Key); err != nil {
		return nil, err
	}
	watched := []string{files.Cert, files.Key}
	if files.ClientCA != "" {
		watched = append(watched, files.ClientCA)
	}
	current, err := reloadOnChange(log, "certificates for clients", watched, func() (*tls.Config, error) { return loadServer(files, log) })
	if err != nil {
		return nil, err
	}
	// The keys of session tickets stay, and rotate daily, through changes of the files.
	base := serverDefaults()
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return current.get(), nil }
	return base, nil
}

// Reload reads the files of a listener again where they have changed, before a client comes.
func Reload(listener *tls.Config) {
	if listener != nil {
		_, _ = listener.GetConfigForClient(nil) // it has no error; see Server
	}
}

func serverDefaults() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		// An answer's event should be one record and one write. Small first records are for
		// browsers that show half a page.
		DynamicRecordSizingDisabled: true,
	}
}

func loadServer(files ServerFiles, log *slog.Logger) (*tls.Config, error) {
	pair, err := loadPair(files.Cert, files.Key, log)
	if err != nil {
		return nil, err
	}
	cfg := serverDefaults()
	cfg.Certificates = []tls.Certificate{*pair}
	if files.ClientCA == "" {
		return cfg, nil
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	// A client whose authority was removed must not come back by an earlier ticket.
	cfg.SessionTicketsDisabled = true
	cfg.ClientCAs, err = loadPool(files.ClientCA)
	return cfg, err
}
