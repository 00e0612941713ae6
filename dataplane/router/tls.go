package router

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// ErrTLS is a choice of TLS settings that contradict each other.
var ErrTLS = errors.New("dataplane: contradicting TLS settings")

// checkTLS refuses what would be weaker than it looks.
func checkTLS(cfg *Config) error {
	if cfg.TLS.ClientCA != "" && cfg.TLS.Cert == "" {
		return fmt.Errorf("cannot ask clients for certificates: %w: --tls-client-ca needs --tls-cert and --tls-key", ErrTLS)
	}
	if cfg.WorkerTLS.Insecure && cfg.WorkerTLS.CA != "" {
		return fmt.Errorf("cannot check workers: %w: --worker-tls-insecure makes --worker-ca useless", ErrTLS)
	}
	return nil
}

// listenerTLS holds the settings of the listeners; nil: plain HTTP.
type listenerTLS struct{ client, operator *tls.Config }

// loadTLS reads the files of the listeners and of the connections to workers.
func loadTLS(cfg *Config) (listeners listenerTLS, workers *tlsconfig.Client, err error) {
	if cfg.WorkerTLS.Insecure {
		cfg.Log.Warn("certificates of workers are not checked (--worker-tls-insecure): " +
			"whoever is between this router and a worker can read and change everything")
	}
	if workers, err = tlsconfig.NewClient(cfg.WorkerTLS, cfg.Log); err != nil {
		return listeners, nil, err
	}
	if cfg.TLS.Cert == "" && cfg.TLS.Key == "" {
		return listeners, workers, nil
	}
	if listeners.client, err = tlsconfig.Server(cfg.TLS, cfg.Log); err != nil {
		return listeners, nil, err
	}
	open := cfg.TLS
	open.ClientCA = "" // operators have their key
	listeners.operator, err = tlsconfig.Server(open, cfg.Log)
	return listeners, workers, err
}
