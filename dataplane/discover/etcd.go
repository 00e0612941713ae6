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
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/warmpath/warmpath/dataplane/worker"
)

// etcd follows the keys below a prefix. Their values are entries, one each.
type etcd struct {
	*report
	prefix string
	cfg    clientv3.Config
	files  tlsFiles
}

var (
	_ Source   = (*etcd)(nil)
	_ Troubled = (*etcd)(nil)
)

// tlsFiles are where certificates are, PEM.
type tlsFiles struct{ ca, cert, key string }

// etcdPatience bounds one request; a watch has no bound.
const etcdPatience = 5 * time.Second

// newEtcd reads "HOST:PORT[,HOST:PORT…]/PREFIX" with the options scheme (of the workers' addresses is in the values), tls, ca,
// cert, key, user and password-file.
func newEtcd(rest string, o *options, r *report) (Source, error) {
	hosts, prefix, found := strings.Cut(strings.TrimPrefix(rest, "//"), "/")
	if !found || hosts == "" || prefix == "" {
		return nil, errors.New("want etcd:HOST:PORT[,HOST:PORT…]/PREFIX")
	}
	e := &etcd{report: r, prefix: "/" + prefix, cfg: clientv3.Config{
		DialTimeout: etcdPatience, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		Logger: zap.NewNop(), // its trouble is told by report, once
	}}
	e.files = tlsFiles{o.take("ca", ""), o.take("cert", ""), o.take("key", "")}
	scheme := "http"
	if o.take("tls", "false") == "true" || e.files != (tlsFiles{}) {
		scheme = "https"
		var err error
		if e.cfg.TLS, err = e.files.load(); err != nil {
			return nil, err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, errors.New("want etcd:HOST:PORT[,HOST:PORT…]/PREFIX: an address is empty")
		}
		e.cfg.Endpoints = append(e.cfg.Endpoints, scheme+"://"+host)
	}
	e.cfg.Username = o.take("user", "")
	if path := o.take("password-file", ""); path != "" {
		password, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the password: %w", err)
		}
		e.cfg.Password = strings.TrimSpace(string(password))
	}
	return e, nil
}

// load reads the files into settings for a client.
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
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("cannot load the client's certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// Run implements Source. While etcd is away the last set stays; when it is back, all keys are read again.
func (e *etcd) Run(ctx context.Context, set func([]worker.Spec)) error {
	cfg := e.cfg
	cfg.Context = ctx
	client, err := clientv3.New(cfg)
	if err != nil {
		return fmt.Errorf("cannot use etcd: %w", err)
	}
	defer client.Close()
	keys := etcdKeys{}
	var wait patience
	for {
		err := e.follow(ctx, client, keys, func() {
			wait.reset()
			set(keys.specs())
		})
		if ctx.Err() != nil {
			return nil
		}
		e.fail(err)
		if !wait.wait(ctx.Done()) {
			return nil
		}
	}
}

// follow reads all keys and then their changes, until that fails.
func (e *etcd) follow(ctx context.Context, client *clientv3.Client, keys etcdKeys, changed func()) error {
	limited, cancel := context.WithTimeout(ctx, etcdPatience)
	got, err := client.Get(limited, e.prefix, clientv3.WithPrefix())
	cancel()
	if err != nil {
		return fmt.Errorf("cannot read keys below %s: %w", e.prefix, err)
	}
	there := map[string]bool{}
	var bad error
	for _, kv := range got.Kvs {
		there[string(kv.Key)] = true
		bad = errors.Join(bad, keys.put(kv))
	}
	maps.DeleteFunc(keys, func(key string, _ worker.Spec) bool { return !there[key] })
	e.fail(bad)
	changed()
	watching, stop := context.WithCancel(clientv3.WithRequireLeader(ctx)) // a member that is cut off from the others says so
	defer stop()
	for news := range client.Watch(watching, e.prefix, clientv3.WithPrefix(), clientv3.WithRev(got.Header.Revision+1)) {
		if err := news.Err(); err != nil { // compacted, or the member has no leader
			return fmt.Errorf("cannot watch keys below %s: %w", e.prefix, err)
		}
		var bad error
		for _, event := range news.Events {
			if event.Type == clientv3.EventTypeDelete {
				delete(keys, string(event.Kv.Key))
			} else {
				bad = errors.Join(bad, keys.put(event.Kv))
			}
		}
		e.fail(bad)
		changed()
	}
	return fmt.Errorf("cannot watch keys below %s: the watch has ended", e.prefix)
}

// etcdKeys are the workers by key.
type etcdKeys map[string]worker.Spec

// put takes in a key's value. A bad one is an error, and keeps what was there.
func (k etcdKeys) put(kv *mvccpb.KeyValue) error {
	specs, err := ParseEntries(kv.Value)
	if err == nil && len(specs) != 1 {
		err = fmt.Errorf("%w: it has %d workers: want one for each key", ErrEntry, len(specs))
	}
	if err != nil {
		return fmt.Errorf("cannot use the value of %s: %w", kv.Key, err)
	}
	k[string(kv.Key)] = specs[0]
	return nil
}

// specs returns the workers in one order; of two keys for one worker the first counts.
func (k etcdKeys) specs() (specs []worker.Spec) {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		specs = append(specs, k[key])
	}
	return sorted(specs)
}
