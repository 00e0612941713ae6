package discover_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// etcdSettings are those of an etcd that a test needs.
type etcdSettings struct {
	own         tlstest.Pair // with authority: of a listener with TLS that wants certificates
	authority   string       // a file
	noGateway   bool         // it has no JSON gateway
	shortTokens bool         // tokens end soon
}

// etcdWriter writes keys through etcd's JSON gateway.
type etcdWriter struct {
	t              testing.TB
	base           string
	http           *http.Client
	user, password string // "": etcd asks for none
}

func (s *etcdServer) writer() *etcdWriter {
	w := &etcdWriter{t: s.t, base: "http://" + s.addr, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	return w
}

// overTLS is the writer over TLS with these settings.
func (w *etcdWriter) overTLS(cfg *tls.Config) *etcdWriter {
	w.base = strings.Replace(w.base, "http:", "https:", 1)
	w.http.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: cfg}
	return w
}

// ask posts a request of etcd's API. []byte fields go as base64, which is their form there.
func (w *etcdWriter) ask(path string, fields map[string]any) (map[string]any, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	if w.user != "" {
		login := etcdWriter{t: w.t, base: w.base, http: w.http}
		token, err := login.ask("/v3/auth/authenticate", map[string]any{"name": w.user, "password": w.password})
		if err != nil {
			return nil, err
		}
		header.Set("Authorization", token["token"].(string))
	}
	body, err := json.Marshal(fields)
	require.NoError(w.t, err)
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+path, bytes.NewReader(body))
	require.NoError(w.t, err)
	req.Header = header
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d: %v", path, resp.StatusCode, answer)
	}
	return answer, nil
}

// must asks until etcd answers: one that has just started may have no leader yet.
func (w *etcdWriter) must(path string, fields map[string]any) (answer map[string]any) {
	w.t.Helper()
	await(w.t, "etcd's answer to "+path, func() bool {
		got, err := w.ask(path, fields)
		answer = got
		return err == nil
	})
	return answer
}

// put writes a key and returns the revision.
func (w *etcdWriter) put(key, value string) int64 {
	w.t.Helper()
	answer := w.must("/v3/kv/put", map[string]any{"key": []byte(key), "value": []byte(value)})
	revision, err := strconv.ParseInt(answer["header"].(map[string]any)["revision"].(string), 10, 64)
	require.NoError(w.t, err)
	return revision
}

// remove deletes one key, or with end all keys from key up to end.
func (w *etcdWriter) remove(key, end string) {
	w.t.Helper()
	w.must("/v3/kv/deleterange", map[string]any{"key": []byte(key), "range_end": []byte(end)})
}

// compact makes etcd forget what was before a revision.
func (w *etcdWriter) compact(revision int64) {
	w.t.Helper()
	w.must("/v3/kv/compaction", map[string]any{"revision": strconv.FormatInt(revision, 10)})
}

// askPasswords gives root and the user router a password, and has etcd ask for them. router may
// read keys below prefix.
func (w *etcdWriter) askPasswords(prefix, end string) {
	w.t.Helper()
	w.must("/v3/auth/role/add", map[string]any{"name": "reader"})
	w.must("/v3/auth/role/grant", map[string]any{
		"name": "reader", "perm": map[string]any{"permType": "READ", "key": []byte(prefix), "range_end": []byte(end)},
	})
	for user, role := range map[string]string{"root": "root", "router": "reader"} {
		w.must("/v3/auth/user/add", map[string]any{"name": user, "password": "secret of " + user})
		w.must("/v3/auth/user/grant", map[string]any{"user": user, "role": role})
	}
	w.must("/v3/auth/enable", map[string]any{})
}
