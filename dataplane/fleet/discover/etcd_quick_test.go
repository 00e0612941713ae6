//go:build !soak

package discover_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
)

// etcdServer imitates what the source and its tests use of etcd's JSON gateway. `make soak` runs
// the same tests with etcd's own server.
type etcdServer struct {
	t    testing.TB
	with etcdSettings
	addr string // host:port
	http *http.Server

	mu        sync.Mutex
	news      chan struct{} // closed at the next change
	changes   []etcdChange  // all, one a revision
	compacted int64
	auth      bool
	passwords map[string]string    // by user
	reads     map[string]etcdRange // by role
	roles     map[string]string    // by user
	tokens    map[string]string    // users
	issued    int                  // tokens
	old       int                  // tokens up to this number
	refused   int                  // requests with an old token
}

// etcdRange is that of etcd's API: one key, or with an end all keys before it.
type etcdRange struct {
	Key []byte `json:"key"`
	End []byte `json:"range_end"`
}

func (r etcdRange) has(key []byte) bool {
	if len(r.End) == 0 {
		return bytes.Equal(key, r.Key)
	}
	return bytes.Compare(key, r.Key) >= 0 && bytes.Compare(key, r.End) < 0
}

// etcdChange is a key that was put, or deleted.
type etcdChange struct {
	Type string         `json:"type,omitempty"`
	KV   map[string]any `json:"kv"`
	key  string
}

// etcdQuestion has the fields of all requests.
type etcdQuestion struct {
	etcdRange
	Value    []byte `json:"value"`
	Limit    int    `json:"limit,string"`
	From     int64  `json:"min_mod_revision,string"`
	Revision int64  `json:"revision,string"`
	Create   struct {
		etcdRange
		From int64 `json:"start_revision,string"`
	} `json:"create_request"`
	Name     string    `json:"name"`
	Password string    `json:"password"`
	User     string    `json:"user"`
	Role     string    `json:"role"`
	Perm     etcdRange `json:"perm"`
}

// startEtcd runs the imitation until the test ends.
func startEtcd(t testing.TB, with etcdSettings) *etcdServer {
	t.Helper()
	s := &etcdServer{
		t: t, with: with, addr: natstest.Address(t), news: make(chan struct{}), changes: make([]etcdChange, 1),
		passwords: map[string]string{}, reads: map[string]etcdRange{}, roles: map[string]string{},
	}
	t.Cleanup(s.kill)
	s.run()
	return s
}

// run listens, and knows no token of earlier.
func (s *etcdServer) run() {
	s.t.Helper()
	s.mu.Lock()
	s.tokens = map[string]string{}
	s.mu.Unlock()
	l, err := net.Listen("tcp", s.addr)
	require.NoError(s.t, err)
	if s.with.authority != "" {
		pem, err := os.ReadFile(s.with.authority)
		require.NoError(s.t, err)
		cfg := &tls.Config{Certificates: []tls.Certificate{s.with.own.TLS}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
		require.True(s.t, cfg.ClientCAs.AppendCertsFromPEM(pem))
		l = quiet{tls.NewListener(l, cfg)}
	}
	s.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go func(on *http.Server) { _ = on.Serve(l) }(s.http)
}

// quiet hides TLS from http.Server, which else answers a client without TLS in plain HTTP.
type quiet struct{ net.Listener }

func (q quiet) Accept() (net.Conn, error) {
	c, err := q.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

func (s *etcdServer) kill() { _ = s.http.Close() }

func (s *etcdServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var q etcdQuestion
	if s.with.noGateway || r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&q) != nil {
		http.NotFound(rw, r)
		return
	}
	if r.URL.Path == "/v3/watch" {
		s.watch(rw, r, q)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := map[string]any{}
	switch r.URL.Path {
	case "/v3/kv/range":
		if !s.allows(rw, r, q.etcdRange) {
			return
		}
		answer = s.list(q)
	case "/v3/kv/put":
		if !s.allows(rw, r, q.etcdRange) {
			return
		}
		s.change(etcdChange{KV: map[string]any{"key": q.Key, "value": q.Value}, key: string(q.Key)})
	case "/v3/kv/deleterange":
		for _, key := range slices.Sorted(maps.Keys(s.keys())) {
			if q.has([]byte(key)) {
				s.change(etcdChange{Type: "DELETE", KV: map[string]any{"key": []byte(key)}, key: key})
			}
		}
	case "/v3/kv/compaction":
		s.compacted = q.Revision
	case "/v3/auth/role/add":
	case "/v3/auth/role/grant":
		s.reads[q.Name] = q.Perm
	case "/v3/auth/user/add":
		s.passwords[q.Name] = q.Password
	case "/v3/auth/user/changepw":
		s.passwords[q.Name] = q.Password
	case "/v3/auth/user/grant":
		s.roles[q.User] = q.Role
	case "/v3/auth/enable":
		s.auth = true
	case "/v3/auth/authenticate":
		if s.passwords[q.Name] != q.Password {
			refuse(rw, http.StatusBadRequest, "etcdserver: authentication failed, invalid user ID or password")
			return
		}
		s.issued++
		token := fmt.Sprintf("%s.%d", q.Name, s.issued)
		s.tokens[token] = q.Name
		answer["token"] = token
	default:
		http.NotFound(rw, r)
		return
	}
	answer["header"] = s.header()
	_ = json.NewEncoder(rw).Encode(answer)
}

func refuse(rw http.ResponseWriter, status int, words string) {
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(map[string]any{"message": words})
}

func (s *etcdServer) header() any {
	return map[string]string{"revision": strconv.Itoa(len(s.changes))}
}

// keys returns what there is by the changes' numbers.
func (s *etcdServer) keys() map[string]int {
	at := map[string]int{}
	for i, c := range s.changes[1:] {
		at[c.key] = i + 1
		if c.Type == "DELETE" {
			delete(at, c.key)
		}
	}
	return at
}

// change adds a change: the first makes revision 2, as in etcd.
func (s *etcdServer) change(c etcdChange) {
	s.changes = append(s.changes, c)
	close(s.news)
	s.news = make(chan struct{})
}

func (s *etcdServer) list(q etcdQuestion) map[string]any {
	kvs, count, at := []any{}, 0, s.keys()
	for _, key := range slices.Sorted(maps.Keys(at)) {
		if !q.has([]byte(key)) {
			continue
		}
		count++
		if int64(at[key]+1) >= q.From && (q.Limit == 0 || len(kvs) < q.Limit) {
			kvs = append(kvs, s.changes[at[key]].KV)
		}
	}
	return map[string]any{"kvs": kvs, "count": strconv.Itoa(count)}
}

// watch sends the changes of a range until the client leaves.
func (s *etcdServer) watch(rw http.ResponseWriter, r *http.Request, q etcdQuestion) {
	s.mu.Lock()
	allowed, compacted := s.allows(rw, r, q.Create.etcdRange), s.compacted
	s.mu.Unlock()
	if !allowed {
		return
	}
	send := func(result map[string]any) {
		_ = json.NewEncoder(rw).Encode(map[string]any{"result": result})
		_ = http.NewResponseController(rw).Flush()
	}
	send(map[string]any{"created": true})
	if q.Create.From < compacted {
		send(map[string]any{"canceled": true, "compact_revision": strconv.FormatInt(compacted, 10)})
		return
	}
	for next := max(1, int(q.Create.From)-1); ; {
		s.mu.Lock()
		var events []etcdChange
		for ; next < len(s.changes); next++ {
			if q.Create.has([]byte(s.changes[next].key)) {
				events = append(events, s.changes[next])
			}
		}
		header, news := s.header(), s.news
		s.mu.Unlock()
		if len(events) > 0 {
			send(map[string]any{"header": header, "events": events})
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		}
	}
}

// allows answers a client that may not use these keys with an error.
func (s *etcdServer) allows(rw http.ResponseWriter, r *http.Request, of etcdRange) bool {
	token := r.Header.Get("Authorization")
	user, known := s.tokens[token]
	if s.with.shortTokens { // for one request each
		s.tokens[token] = ""
	}
	granted := s.reads[s.roles[user]]
	number, _ := strconv.Atoi(token[strings.LastIndexByte(token, '.')+1:])
	switch {
	case !s.auth || user == "root":
		return true
	case known && number > 0 && number <= s.old: // as a JWT says, for one
		s.refused++
		refuse(rw, http.StatusBadRequest, "etcdserver: revision of auth store is old")
	case token == "":
		refuse(rw, http.StatusBadRequest, "etcdserver: user name is empty")
	case !known || user == "":
		refuse(rw, http.StatusUnauthorized, "etcdserver: invalid auth token")
	case bytes.Compare(of.Key, granted.Key) < 0 || bytes.Compare(of.End, granted.End) > 0:
		refuse(rw, http.StatusForbidden, "etcdserver: permission denied")
	default:
		return true
	}
	return false
}

// ageTokens makes all tokens those of an earlier revision of the users.
func (s *etcdServer) ageTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old = s.issued
}

// aged reports whether a client has used such a token.
func (s *etcdServer) aged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused > 0
}

// TestEtcdTokenOfThePast: a token that a change of users has made old is replaced.
func TestEtcdTokenOfThePast(t *testing.T) {
	server := startEtcd(t, etcdSettings{})
	root, addr := server.writer(), server.addr
	root.put("/w/a", "http://a:1")
	root.askPasswords("/w/", "/w0")
	root.user, root.password = "root", "secret of root"
	password := filepath.Join(t.TempDir(), "password")
	write(t, password, "secret of router")
	d, s := followTuned(t, "etcd:"+addr+"/w/?user=router&password-file="+password, func(s discover.Source) {
		discover.CheckOften(s, 100*time.Millisecond, patience)
	})
	d.tells(t, "http://a:1")
	server.ageTokens()
	await(t, "a check with an old token", func() bool { return server.aged() })
	root.put("/w/b", "http://b:1")
	d.tells(t, "http://a:1", "http://b:1")
	troubled(t, s, "")
	require.NotContains(t, d.logged(), "revision of auth store is old")
}
