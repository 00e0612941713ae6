package discover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/regularfile"
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
	e := &etcd{report: r, prefix: "/" + prefix, api: etcdAPI{patience: etcdPatience, check: etcdCheck, longest: maxAnswer}}
	e.api.files = tlsFiles{o.take("ca", ""), o.take("cert", ""), o.take("key", "")}
	scheme := "http"
	if o.take("tls", "false") == "true" || e.api.files != (tlsFiles{}) {
		scheme = "https"
		if _, err := e.api.files.load(); err != nil {
			return nil, err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("want etcd:HOST:PORT[,HOST:PORT…]/PREFIX: an address is empty")
		}
		e.api.bases = append(e.api.bases, scheme+"://"+host)
	}
	e.api.user, e.api.passwordFile = o.take("user", ""), o.take("password-file", "")
	_, err := e.api.password()
	return e, err
}

// load reads the files into settings for the next connections. The client's certificate is read
// again for each of them, because it is renewed.
func (f tlsFiles) load() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		pem, err := regularfile.Read(f.ca, maxFile)
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
	keys := etcdKeys{}
	var wait patience
	for failed := 1; ; failed++ {
		told := false
		began := time.Now()
		err := client.connect()
		if err == nil {
			err = e.follow(ctx, client, &keys, func() {
				told = true
				set(keys.specs())
			})
			client.CloseIdleConnections()
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the source was told to end
		}
		if !errors.Is(err, errGone) { // after which all is read again
			e.fail(err)
			client.next()
		}
		if !told && failed < len(e.api.bases) {
			continue // another member may answer at once
		}
		failed = 0
		if !wait.wait(ctx.Done(), time.Since(began), 0, err) {
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
	bad := keys.replace(got.KVs)
	if err := tooMany(len(keys.there)); err != nil {
		return fmt.Errorf("cannot use the keys below %s: %w", e.prefix, err)
	}
	e.fail(bad)
	changed()
	seen := &watchProgress{}
	seen.revision.Store(got.Header.Revision)
	seen.keys.Store(int64(len(keys.there)))
	err = client.watch(ctx, all, seen, func(events []etcdEvent) error {
		bad := keys.apply(events)
		if err := tooMany(len(keys.there)); err != nil {
			return err
		}
		e.fail(bad)
		seen.keys.Store(int64(len(keys.there)))
		changed()
		return nil
	})
	return fmt.Errorf("cannot watch keys below %s: %w", e.prefix, err)
}

// etcdKeys are the keys that there are, with the faults of their values, and the workers by key.
type etcdKeys struct {
	there   map[string]error
	workers map[string]worker.Spec
}

// replace takes in all keys. A bad value keeps the key's earlier one, and is an error until it
// goes.
func (k *etcdKeys) replace(kvs []etcdKV) error {
	k.there = map[string]error{}
	if k.workers == nil {
		k.workers = map[string]worker.Spec{}
	}
	for _, kv := range kvs {
		k.put(kv)
	}
	maps.DeleteFunc(k.workers, func(key string, _ worker.Spec) bool {
		_, there := k.there[key]
		return !there
	})
	return k.bad()
}

// apply takes in changes, as replace does.
func (k *etcdKeys) apply(events []etcdEvent) error {
	for _, event := range events {
		if event.Type == "DELETE" {
			delete(k.there, string(event.KV.Key))
			delete(k.workers, string(event.KV.Key))
		} else {
			k.put(event.KV)
		}
	}
	return k.bad()
}

func (k *etcdKeys) put(kv etcdKV) {
	specs, err := ParseEntries(kv.Value)
	if err == nil && len(specs) != 1 {
		err = fmt.Errorf("%w: it has %d workers: want one for each key", ErrEntry, len(specs))
	}
	if k.there[string(kv.Key)] = err; err == nil {
		k.workers[string(kv.Key)] = specs[0]
	}
}

// bad names the keys with a bad value.
func (k *etcdKeys) bad() error {
	var faults faults
	for _, key := range slices.Sorted(maps.Keys(k.there)) {
		if err := k.there[key]; err != nil {
			faults.add(fmt.Errorf("cannot use the value of %s: %w", key, err))
		}
	}
	return faults.err()
}

// specs returns the workers in one order; of two keys for one worker the first counts.
func (k *etcdKeys) specs() (specs []worker.Spec) {
	for _, key := range slices.Sorted(maps.Keys(k.workers)) {
		specs = append(specs, k.workers[key])
	}
	return sorted(specs)
}
