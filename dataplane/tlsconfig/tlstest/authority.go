package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	File string // its certificate, PEM
}

// Pair is a certificate and its key.
type Pair struct {
	Cert, Key string // PEM files
	TLS       tls.Certificate
}

// NewAuthority returns an authority whose files live as long as the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, File: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, time.Now().Add(time.Hour))
	a.write(a.File, "CERTIFICATE", a.cert.Raw)
	return a
}

// Pool returns the authority as a list of one.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue returns a certificate for these names and addresses, in files of its own.
func (a *Authority) Issue(hosts ...string) Pair {
	a.t.Helper()
	dir := a.t.TempDir()
	p := Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	return a.Reissue(p, time.Now().Add(time.Hour), hosts...)
}

// Expired is Issue of a certificate that was good until an hour ago.
func (a *Authority) Expired(hosts ...string) Pair {
	a.t.Helper()
	dir := a.t.TempDir()
	p := Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	return a.Reissue(p, time.Now().Add(-time.Hour), hosts...)
}

// Reissue writes another certificate, and another key, over the files of p.
func (a *Authority) Reissue(p Pair, until time.Time, hosts ...string) Pair {
	a.t.Helper()
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "test"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	cert, key := a.sign(template, until)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(p.Cert, "CERTIFICATE", cert.Raw)
	a.write(p.Key, "PRIVATE KEY", der)
	p.TLS = tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
	return p
}

// sign fills in the rest of a certificate, and signs it: the authority's own by itself.
func (a *Authority) sign(template *x509.Certificate, until time.Time) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		a.t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = until.Add(-24*time.Hour), until
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// write replaces a file by a rename, as tools that renew certificates do.
func (a *Authority) write(file, kind string, der []byte) {
	a.t.Helper()
	next := file + ".new"
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		a.t.Fatal(err)
	}
}
