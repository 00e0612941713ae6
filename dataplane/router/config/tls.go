package config

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// ErrTLS means that TLS settings contradict each other.
var ErrTLS = errors.New("router: contradicting TLS settings")

// checkTLS refuses settings that are weaker than they look.
func (c *Config) checkTLS() error {
	if c.TLS.ClientCA != "" && c.TLS.Cert == "" {
		return fmt.Errorf("cannot ask clients for certificates: %w: --tls-client-ca needs --tls-cert and --tls-key", ErrTLS)
	}
	if c.WorkerTLS.Insecure && c.WorkerTLS.CA != "" {
		return fmt.Errorf("cannot check workers: %w: --worker-tls-insecure makes --worker-ca useless", ErrTLS)
	}
	return nil
}

// ListenerTLS holds the settings of the listeners; nil: plain HTTP.
type ListenerTLS struct{ Client, Operator *tls.Config }

// LoadTLS reads the files of the listeners and of the connections to workers.
func (c *Config) LoadTLS() (listeners ListenerTLS, workers *tlsconfig.Client, err error) {
	if c.WorkerTLS.Insecure {
		c.Log.Warn("certificates of workers are not checked (--worker-tls-insecure): " +
			"anyone between this router and a worker can read and change everything")
	}
	if workers, err = tlsconfig.NewClient(c.WorkerTLS, c.Log); err != nil {
		return listeners, nil, err
	}
	if c.TLS.Cert == "" && c.TLS.Key == "" {
		return listeners, workers, nil
	}
	if listeners.Client, err = tlsconfig.Server(c.TLS, c.Log); err != nil {
		return listeners, nil, err
	}
	operator := c.TLS
	operator.ClientCA = "" // operators have their key
	listeners.Operator, err = tlsconfig.Server(operator, c.Log)
	return listeners, workers, err
}
