package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// listenTLSFlags are the TLS flags of the listeners.
func listenTLSFlags(f *pflag.FlagSet, files *tlsconfig.ServerFiles) {
	f.StringVar(&files.Cert, "tls-cert", "", "serve clients and operators over https with the certificate in `FILE`, PEM with its intermediates; read again when it changes")
	f.StringVar(&files.Key, "tls-key", "", "`FILE` with the key of --tls-cert, PEM")
	f.StringVar(&files.ClientCA, "tls-client-ca", "",
		"require client certificates signed by an authority in `FILE`, PEM; a separate --operator-listen asks only for its key")
}

// workerTLSFlags are the TLS flags of connections to workers with https URLs.
func workerTLSFlags(f *pflag.FlagSet, files *tlsconfig.ClientFiles) {
	f.StringVar(&files.CA, "worker-ca", "", "`FILE` with the authorities of https workers, PEM (default: the system's)")
	f.StringVar(&files.Cert, "worker-cert", "", "`FILE` with the client certificate for https workers, PEM")
	f.StringVar(&files.Key, "worker-key", "", "`FILE` with the key of --worker-cert, PEM")
	f.BoolVar(&files.Insecure, "worker-tls-insecure", false, "accept any certificate of https workers: for tests only")
}

// workerKeyFlag names the file with the API keys of workers.
func workerKeyFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "worker-api-key-file", "",
		"`FILE` with the workers' API keys, lines of [URL] KEY [ADMIN_KEY] (a line without URL is for all other workers, - means no key); read again when it changes")
}
