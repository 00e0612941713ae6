package discover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// etcd follows the keys below a prefix. Their values are entries, one each.
type etcd struct {
	*report
	prefix string
	api    etcdAPI
}

var (
	_ Source   = (*etcd)(nil)
	_ Troubled = (*etcd)(nil)
)

// tlsFiles are where certificates are, PEM.
type tlsFiles struct{ ca, cert, key string }

// newEtcd reads "HOST:PORT[,HOST:PORT…]/PREFIX" with the options tls, ca, cert, key, user and
// password-file. The values have the workers' own schemes.
func newEtcd(rest string, o *options, r *report) (Source, error) {
	hosts, prefix, found := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	if !found || hosts == "" || prefix == "" {
		return nil, errors.New("want etcd:HOST:PORT[,HOST:PORT…]/PREFIX")
	}
	e := &etcd{report: r, prefix: "/" + prefix, api: etcdAPI{patience: etcdPatience, check: etcdCheck}}
	files := tlsFiles{o.take("ca", ""), o.take("cert", ""), o.take("key", "")}
	scheme := "http"
	if o.take("tls", "false") == "true" || files != (tlsFiles{}) {
		scheme = "https"
		var err error
		if e.api.tls, err = files.load(); err != nil {
			return nil, err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("want etcd:HOST:PORT[,HOST:PORT…]/PREFIX: an address is empty")
		}
		e.api.bases = append(e.api.bases, scheme+"://"+host)
	}
	e.api.user = o.take("user", "")
	if path := o.take("password-file", ""); path != "" {
		password, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the password: %w", err)
		}
		e.api.password = strings.TrimSpace(string(password))
	}
	return e, nil
}

// load reads the files into settings for a client. The client's certificate is read again for
// each connection, because it is renewed.
func (f tlsFiles) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, fmt.Errorf("cannot read authorities: %w", err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("cannot use %s: it has no certificate in PEM", f.ca)
		}
	}
	if f.cert != "" || f.key != "" {
		own := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(f.cert, f.key)
			if err != nil {
				return nil, fmt.Errorf("cannot load the client's certificate: %w", err)
			}
			return &pair, nil
		}
		if _, err := own(); err != nil {
			return nil, err
		}
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	}
	return cfg, nil
}

// Run implements Source. While etcd is away the last set stays; then all keys are read again.
func (e *etcd) Run(ctx context.Context, set func([]worker.Spec)) error {
	client := e.api.client()
	defer client.CloseIdleConnections()
	keys := etcdKeys{}
	var wait patience
	for failed := 1; ; failed++ {
		told := false
		err := e.follow(ctx, client, &keys, func() {
			told = true
			wait.reset()
			set(keys.specs())
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil { // else too much has changed since: all is read again
			e.fail(err)
			client.next()
		}
		if !told && failed < len(e.api.bases) {
			continue // another member may answer at once
		}
		failed = 0
		if !wait.wait(ctx.Done()) {
			return nil
		}
	}
}

// follow reads all keys and then their changes, until that fails.
func (e *etcd) follow(ctx context.Context, client *etcdClient, keys *etcdKeys, changed func()) error {
	all := etcdPrefix(e.prefix)
	got, err := client.list(ctx, all)
	if err != nil {
		return fmt.Errorf("cannot read keys below %s: %w", e.prefix, err)
	}
	e.fail(keys.replace(got.KVs))
	changed()
	seen := &watchProgress{}
	seen.revision.Store(got.Header.Revision)
	seen.keys.Store(int64(len(keys.there)))
	err = client.watch(ctx, all, seen, func(events []etcdEvent) {
		e.fail(keys.apply(events))
		seen.keys.Store(int64(len(keys.there)))
		changed()
	})
	if errors.Is(err, errGone) {
		return nil
	}
	return fmt.Errorf("cannot watch keys below %s: %w", e.prefix, err)
}

// etcdKeys are the keys that there are, and the workers by key.
type etcdKeys struct {
	there   map[string]bool
	workers map[string]worker.Spec
}

// replace takes in all keys. A bad value is an error, and keeps the key's earlier value.
func (k *etcdKeys) replace(kvs []etcdKV) (bad error) {
	k.there = map[string]bool{}
	if k.workers == nil {
		k.workers = map[string]worker.Spec{}
	}
	for _, kv := range kvs {
		bad = errors.Join(bad, k.put(kv))
	}
	maps.DeleteFunc(k.workers, func(key string, _ worker.Spec) bool { return !k.there[key] })
	return bad
}

// apply takes in changes, as replace does.
func (k *etcdKeys) apply(events []etcdEvent) (bad error) {
	for _, event := range events {
		if event.Type == "DELETE" {
			delete(k.there, string(event.KV.Key))
			delete(k.workers, string(event.KV.Key))
		} else {
			bad = errors.Join(bad, k.put(event.KV))
		}
	}
	return bad
}

func (k *etcdKeys) put(kv etcdKV) error {
	k.there[string(kv.Key)] = true
	specs, err := ParseEntries(kv.Value)
	if err == nil && len(specs) != 1 {
		err = fmt.Errorf("%w: it has %d workers: want one for each key", ErrEntry, len(specs))
	}
	if err != nil {
		return fmt.Errorf("cannot use the value of %s: %w", kv.Key, err)
	}
	k.workers[string(kv.Key)] = specs[0]
	return nil
}

// specs returns the workers in one order; of two keys for one worker the first counts.
func (k *etcdKeys) specs() (specs []worker.Spec) {
	for _, key := range slices.Sorted(maps.Keys(k.workers)) {
		specs = append(specs, k.workers[key])
	}
	return sorted(specs)
}
