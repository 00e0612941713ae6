package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// listenTLSFlags are the TLS flags of the listeners.
func listenTLSFlags(f *pflag.FlagSet, files *tlsconfig.ServerFiles) {
	f.StringVar(&files.Cert, "tls-cert", "", "certificate for clients and operators, PEM with its intermediates: they use https then. Read again when it changes")
	f.StringVar(&files.Key, "tls-key", "", "key of --tls-cert, PEM")
	f.StringVar(&files.ClientCA, "tls-client-ca", "",
		"clients must show a certificate that one of these authorities signed, PEM; a separate --operator-listen asks for its key only")
}

// workerTLSFlags are the TLS flags of connections to workers with https URLs.
func workerTLSFlags(f *pflag.FlagSet, files *tlsconfig.ClientFiles) {
	f.StringVar(&files.CA, "worker-ca", "", "authorities of the certificates of https workers, PEM; default the system's")
	f.StringVar(&files.Cert, "worker-cert", "", "certificate that https workers are shown where they ask, PEM")
	f.StringVar(&files.Key, "worker-key", "", "key of --worker-cert, PEM")
	f.BoolVar(&files.Insecure, "worker-tls-insecure", false, "take any certificate of https workers: for tests only")
}

// workerKeyFlag names the file with the API keys of workers.
func workerKeyFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "worker-api-key-file", "",
		"file with the workers' --api-key, lines of [URL] KEY [ADMIN_KEY] (a line without URL is for all others, - is none); read again when it changes")
}
