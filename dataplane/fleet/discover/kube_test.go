package discover_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// The objects as the API server writes them.
type (
	kubeMeta struct {
		Name            string            `json:"name,omitempty"`
		Namespace       string            `json:"namespace,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Continue        string            `json:"continue,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
	}
	kubeConditions struct {
		Ready       *bool `json:"ready,omitempty"`
		Serving     *bool `json:"serving,omitempty"`
		Terminating *bool `json:"terminating,omitempty"`
	}
	kubeEndpoint struct {
		Addresses  []string       `json:"addresses"`
		Conditions kubeConditions `json:"conditions"`
		TargetRef  *kubeTarget    `json:"targetRef,omitempty"`
	}
	kubeTarget struct {
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	}
	kubePort struct {
		Name        *string `json:"name,omitempty"`
		Protocol    string  `json:"protocol"`
		Port        *int32  `json:"port,omitempty"`
		AppProtocol *string `json:"appProtocol,omitempty"`
	}
	kubeSlice struct {
		Kind        string         `json:"kind"`
		APIVersion  string         `json:"apiVersion"`
		Metadata    kubeMeta       `json:"metadata"`
		AddressType string         `json:"addressType"`
		Endpoints   []kubeEndpoint `json:"endpoints"` // null where there are none
		Ports       []kubePort     `json:"ports"`

		change func(object map[string]any) // of what is written; may be nil
	}
	kubeList struct {
		Metadata kubeMeta    `json:"metadata"`
		Items    []kubeSlice `json:"items"`
	}
	kubeEvent struct {
		Type   string `json:"type"`
		Object any    `json:"object"`
	}
	kubeStatus struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
)

// MarshalJSON writes what the test changed.
func (s kubeSlice) MarshalJSON() ([]byte, error) {
	type plain kubeSlice
	text, err := json.Marshal(plain(s))
	if err != nil || s.change == nil {
		return text, err
	}
	object := map[string]any{}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	s.change(object)
	return json.Marshal(object)
}

// apiServer is the part of Kubernetes' API that lists and watches EndpointSlices, with the
// names of discovery.k8s.io/v1 written down here once more, from its reference.
type apiServer struct {
	t    *testing.T
	http *httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed when anything below changes
	version int
	oldest  int // the version that can be watched from
	slices  map[string]*kubeSlice
	log     []kubeEvent // from version 1 on
	down    bool
	hangUp  int // all watches that began before are cut
	token   string
	queries []string
	gone    bool        // watches of a version that is not remembered are refused
	busy    string      // Retry-After of watches, which get 429; "none": without one; "": they are answered
	lists   []time.Time // while busy
	mute    bool        // watches tell nothing until they end, as long as they are asked to last
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{t: t, changed: make(chan struct{}), slices: map[string]*kubeSlice{}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	return s
}

// with changes the server and wakes up watches.
func (s *apiServer) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *apiServer) put(slice *kubeSlice) {
	s.with(func() {
		kind := "MODIFIED"
		if s.slices[slice.Metadata.Name] == nil {
			kind = "ADDED"
		}
		s.version++
		slice.Metadata.ResourceVersion = strconv.Itoa(s.version)
		s.slices[slice.Metadata.Name] = slice
		s.recordLocked(kind, slice)
	})
}

func (s *apiServer) remove(name string) {
	s.with(func() {
		s.version++
		slice := *s.slices[name]
		slice.Metadata.ResourceVersion = strconv.Itoa(s.version)
		delete(s.slices, name)
		s.recordLocked("DELETED", &slice)
	})
}

func (s *apiServer) recordLocked(kind string, slice *kubeSlice) {
	s.log = append(s.log, kubeEvent{kind, *slice})
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down, token, life, busy := s.down, s.token, s.hangUp, s.busy
	watches := r.URL.Query().Get("watch") != ""
	if busy != "" && !watches {
		s.lists = append(s.lists, time.Now())
	}
	s.queries = append(s.queries, r.URL.Path+"?"+r.URL.Query().Get("labelSelector"))
	s.mu.Unlock()
	refuse := func(code int, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(kubeStatus{"Status", message, code})
	}
	switch {
	case down:
		refuse(http.StatusServiceUnavailable, "etcd has no leader")
	case token != "" && r.Header.Get("Authorization") != "Bearer "+token:
		refuse(http.StatusUnauthorized, "Unauthorized")
	case watches && busy != "":
		if busy != "none" {
			w.Header().Set("Retry-After", busy)
		}
		refuse(http.StatusTooManyRequests, "too many requests, please try again later")
	case watches:
		s.watch(w, r, life)
	default:
		s.list(w, r)
	}
}

// list answers with one slice a page.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := kubeList{Metadata: kubeMeta{ResourceVersion: strconv.Itoa(s.version)}}
	after := r.URL.Query().Get("continue")
	next := ""
	for name := range s.slices {
		if name > after && (next == "" || name < next) {
			next = name
		}
	}
	if next != "" {
		list.Items = append(list.Items, *s.slices[next])
		for name := range s.slices {
			if name > next {
				list.Metadata.Continue = next
			}
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

// watch answers a watch that began in a life of the server.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, life int) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	flush, _ := w.(http.Flusher)
	s.mu.Lock()
	if s.mute {
		flush.Flush()
		s.mu.Unlock()
		seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-r.Context().Done():
		}
		return
	}
	if !s.gone {
		flush.Flush()
	}
	for {
		if s.hangUp != life {
			s.mu.Unlock()
			return
		}
		if from < s.oldest {
			if s.gone {
				w.WriteHeader(http.StatusGone)
			}
			s.mu.Unlock()
			_ = json.NewEncoder(w).Encode(kubeEvent{"ERROR", kubeStatus{"Status", "too old resource version", http.StatusGone}})
			return
		}
		news, changed := s.log[from:], s.changed
		from = len(s.log)
		s.mu.Unlock()
		for _, e := range news {
			_ = json.NewEncoder(w).Encode(e)
		}
		flush.Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		s.mu.Lock()
	}
}

// slice makes an EndpointSlice of a service with port http at 30000; endpoints are addresses
// with "-" (not ready) or "x" (terminating) before them.
func slice(name string, labels map[string]string, endpoints ...string) *kubeSlice {
	s := &kubeSlice{
		Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1", AddressType: "IPv4",
		Metadata: kubeMeta{Name: name, Namespace: "inference", Labels: labels},
		Ports: []kubePort{
			{Protocol: "TCP", Name: new("metrics"), Port: new(int32(9000))},
			{Protocol: "TCP", Name: new("http"), Port: new(int32(30000))},
			{Protocol: "TCP", Name: new("bootstrap"), Port: new(int32(8998))},
		},
	}
	for _, e := range endpoints {
		end := kubeEndpoint{Conditions: kubeConditions{Ready: new(true)}}
		switch e[0] {
		case '-':
			end.Conditions.Ready, e = new(false), e[1:]
		case 'x':
			end.Conditions = kubeConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
			e = e[1:]
		case '?':
			end.Conditions, e = kubeConditions{}, e[1:]
		}
		end.Addresses = []string{e, "10.9.9.9"}
		s.Endpoints = append(s.Endpoints, end)
	}
	return s
}

func TestKubernetes(t *testing.T) {
	api := newAPIServer(t)
	api.put(slice("a", nil, "10.0.0.1", "?10.0.0.2"))
	api.put(slice("b", map[string]string{"warmpath.io/role": "prefill"}, "10.0.1.1"))
	d, s := follow(t, "kubernetes:inference/sglang?api="+api.http.URL)
	got := d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000", "http://10.0.1.1:30000")
	require.Equal(t, worker.Spec{URL: "http://10.0.1.1:30000", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 8998}}, got[2])
	require.Equal(t, worker.Spec{URL: "http://10.0.0.1:30000"}, got[0])
	api.mu.Lock()
	require.Equal(t, "/apis/discovery.k8s.io/v1/namespaces/inference/endpointslices?kubernetes.io/service-name=sglang", api.queries[0])
	api.mu.Unlock()

	drains := func(want ...bool) {
		t.Helper()
		await(t, "drains", func() bool {
			specs, _ := d.last()
			if len(specs) != len(want) {
				return false
			}
			for i, s := range specs {
				if s.Drain != want[i] {
					return false
				}
			}
			return true
		})
	}
	drains(false, false, false)
	api.put(slice("a", nil, "x10.0.0.1", "-10.0.0.2"))
	drains(true, true, false)
	api.put(slice("c", nil, "10.0.0.2")) // it moves from one slice to another
	drains(true, false, false)
	api.remove("c")
	api.put(slice("b", nil, "-10.0.1.1")) // none is ready: only terminating ones drain
	drains(true, false, false)
	api.remove("b")
	d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000")

	api.put(slice("d", map[string]string{"warmpath.io/role": "prefil"}, "10.0.3.1"))
	troubled(t, s, `cannot use EndpointSlice d: its label warmpath.io/role: cannot use role "prefil"`)
	api.remove("d")
	troubled(t, s, "")
	api.remove("a")
	d.tells(t)
}

// TestKubernetesOutage loses the API server, its memory and its watches, one after the other.
func TestKubernetesOutage(t *testing.T) {
	api := newAPIServer(t)
	api.put(slice("a", nil, "10.0.0.1"))
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("one\n"), 0o600))
	api.with(func() { api.token = "one" })
	d, s := follow(t, "kubernetes:inference/?selector=app%3Dsglang&token-file="+token+"&api="+api.http.URL)
	d.tells(t, "http://10.0.0.1:30000")

	api.with(func() { api.hangUp++ }) // as every watch ends at some time
	api.put(slice("b", nil, "10.0.0.2"))
	d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000")

	sets := d.count()
	api.with(func() { api.down, api.hangUp = true, api.hangUp+1 })
	troubled(t, s, "the API server answered 503: etcd has no leader")
	require.Equal(t, sets, d.count(), "an outage is no set")
	api.remove("a")
	api.with(func() { api.down, api.oldest, api.token = false, api.version, "two" })
	require.NoError(t, os.WriteFile(token, []byte("two\n"), 0o600))
	d.tells(t, "http://10.0.0.2:30000")
	troubled(t, s, "")

	api.with(func() { api.version++; api.log = append(api.log, api.log[0]); api.oldest = api.version }) // 410 while it watches
	api.put(slice("c", nil, "10.0.0.3"))
	d.tells(t, "http://10.0.0.2:30000", "http://10.0.0.3:30000")
	require.NotContains(t, d.logged(), "too old", "that is no trouble")

	api.with(func() { // 410 before it watches
		api.gone = true
		api.version++
		api.log = append(api.log, api.log[0])
		api.oldest = api.version + 1
		api.hangUp++
	})
	api.put(slice("d", nil, "10.0.0.4"))
	d.tells(t, "http://10.0.0.2:30000", "http://10.0.0.3:30000", "http://10.0.0.4:30000")
	require.NotContains(t, d.logged(), "answered 410", "nor is that")
}

// TestKubernetesDeadConnection: a middlebox that holds a dead connection open is found out.
func TestKubernetesDeadConnection(t *testing.T) {
	ca := tlstest.NewAuthority(t)
	api := newAPIServer(t)
	api.put(slice("a", nil, "10.0.0.1"))
	secure := httptest.NewUnstartedServer(api)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	relay := startRelay(t, secure.Listener.Addr().String())
	d, s := followTuned(t, "kubernetes:inference/sglang?api=https://"+relay.addr()+"&ca="+url.QueryEscape(ca.File), func(s discover.Source) {
		discover.PingOften(s, 100*time.Millisecond)
	})
	d.tells(t, "http://10.0.0.1:30000")
	await(t, "a watch", func() bool {
		api.mu.Lock()
		defer api.mu.Unlock()
		return len(api.queries) > 1
	})
	relay.freezeLinks()
	api.put(slice("b", nil, "10.0.0.2"))
	d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000")
	troubled(t, s, "")
}

// TestKubernetesWatchesFallSilent: watches that stand and tell nothing, however often they are resumed.
func TestKubernetesWatchesFallSilent(t *testing.T) {
	t.Parallel() // a watch takes a second
	api := newAPIServer(t)
	api.put(slice("a", nil, "10.0.0.1"))
	api.with(func() { api.mute = true })
	d, s := followTuned(t, "kubernetes:inference/sglang?api="+api.http.URL, func(s discover.Source) { discover.ShortWatches(s, time.Second) })
	d.tells(t, "http://10.0.0.1:30000")
	api.put(slice("b", nil, "10.0.0.2"))
	d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000")
	api.remove("a")
	d.tells(t, "http://10.0.0.2:30000")
	troubled(t, s, "")
}

// TestKubernetesIsBusy: a server that refuses watches is asked less and less often, and not before
// the time that it names.
func TestKubernetesIsBusy(t *testing.T) {
	for retry, least := range map[string]time.Duration{"2": 2 * time.Second, "none": 500 * time.Millisecond} {
		t.Run(retry, func(t *testing.T) {
			t.Parallel()
			api := newAPIServer(t)
			api.put(slice("a", nil, "10.0.0.1"))
			api.with(func() { api.busy = retry })
			d, s := follow(t, "kubernetes:inference/sglang?api="+api.http.URL)
			troubled(t, s, "please try again later")
			await(t, "three lists", func() bool {
				api.mu.Lock()
				defer api.mu.Unlock()
				return len(api.lists) >= 3
			})
			api.mu.Lock()
			first, second := api.lists[1].Sub(api.lists[0]), api.lists[2].Sub(api.lists[1])
			api.mu.Unlock()
			require.GreaterOrEqual(t, first, least)
			require.GreaterOrEqual(t, second, max(least, time.Second))
			d.tells(t, "http://10.0.0.1:30000")
			api.with(func() { api.busy = "" })
			api.put(slice("b", nil, "10.0.0.2"))
			d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000")
			troubled(t, s, "")
		})
	}
}

// TestKubernetesAuthority: the authority's file may come late and change.
func TestKubernetesAuthority(t *testing.T) {
	ours, old := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	api := newAPIServer(t)
	api.put(slice("a", nil, "10.0.0.1"))
	secure := httptest.NewUnstartedServer(api)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{ours.Issue("127.0.0.1").TLS}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	file := filepath.Join(t.TempDir(), "ca.crt")
	d, s := follow(t, "kubernetes:inference/sglang?api="+secure.URL+"&ca="+url.QueryEscape(file))
	troubled(t, s, "cannot read authorities")
	for _, a := range []struct {
		from  *tlstest.Authority
		words string
	}{{old, "unknown authority"}, {ours, ""}} {
		pem, err := os.ReadFile(a.from.File)
		require.NoError(t, err)
		write(t, file, string(pem))
		troubled(t, s, a.words)
	}
	d.tells(t, "http://10.0.0.1:30000")
}

// TestKubernetesDualStack: a pod of a service with both families is one worker, at its IPv4
// address. A pod that has only one of them is a worker there.
func TestKubernetesDualStack(t *testing.T) {
	pods := func(s *kubeSlice, family string, names ...string) *kubeSlice {
		s.AddressType = family
		for i, name := range names {
			s.Endpoints[i].TargetRef = &kubeTarget{"Pod", "inference", name, "uid of " + name}
		}
		return s
	}
	api := newAPIServer(t)
	six := func() *kubeSlice {
		return pods(slice("a-six", nil, "fd00::1", "fd00::2", "fd00::3"), "IPv6", "one", "two", "three")
	}
	api.put(six())
	api.put(pods(slice("b-four", nil, "10.0.0.1", "10.0.0.2"), "IPv4", "one", "two"))
	d, s := follow(t, "kubernetes:inference/sglang?api="+api.http.URL)
	d.tells(t, "http://10.0.0.1:30000", "http://10.0.0.2:30000", "http://[fd00::3]:30000")
	api.put(pods(slice("b-four", nil, "10.0.0.1"), "IPv4", "one"))
	d.tells(t, "http://10.0.0.1:30000", "http://[fd00::2]:30000", "http://[fd00::3]:30000")
	api.remove("b-four")
	d.tells(t, "http://[fd00::1]:30000", "http://[fd00::2]:30000", "http://[fd00::3]:30000")
	troubled(t, s, "")
}

// TestKubernetesServicesApart: a readiness probe that fails at all pods of one service drains none
// of them because those of another service are ready.
func TestKubernetesServicesApart(t *testing.T) {
	of := func(service string) map[string]string {
		return map[string]string{"kubernetes.io/service-name": service}
	}
	api := newAPIServer(t)
	api.put(slice("a", of("llama"), "10.0.0.1"))
	api.put(slice("b", of("qwen"), "-10.0.1.1", "-10.0.1.2"))
	d, _ := follow(t, "kubernetes:inference/?selector=app%3Dsglang&api="+api.http.URL)
	for _, spec := range d.tells(t, "http://10.0.0.1:30000", "http://10.0.1.1:30000", "http://10.0.1.2:30000") {
		require.False(t, spec.Drain, spec.URL)
	}
	api.put(slice("c", of("qwen"), "10.0.1.3"))
	for _, spec := range d.tells(t, "http://10.0.0.1:30000", "http://10.0.1.1:30000", "http://10.0.1.2:30000", "http://10.0.1.3:30000") {
		require.Equal(t, strings.Contains(spec.URL, "10.0.1.1") || strings.Contains(spec.URL, "10.0.1.2"), spec.Drain, spec.URL)
	}
}

func TestKubernetesPorts(t *testing.T) {
	api := newAPIServer(t)
	secure := slice("a", nil, "fd00::1")
	secure.Ports = []kubePort{{Protocol: "TCP", Name: new("api"), Port: new(int32(443)), AppProtocol: new("HTTPS")}}
	api.put(secure)
	api.put(slice("b", nil, "10.0.0.1"))
	api.put(slice("empty", nil))
	d, s := follow(t, "kubernetes:inference/sglang?role=decode&api="+api.http.URL)
	got := d.tells(t, "http://10.0.0.1:30000", "https://[fd00::1]")
	require.Equal(t, worker.RoleDecode, got[1].Role)
	troubled(t, s, "")
	d, s = follow(t, "kubernetes:inference/sglang?port=api&scheme=http&api="+api.http.URL)
	d.tells(t, "http://[fd00::1]:443")
	troubled(t, s, `cannot use EndpointSlice b: it has no port named "api" but "metrics", "http", "bootstrap"`)
}
