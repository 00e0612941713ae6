package discover

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// The needed parts of discovery.k8s.io/v1, by the names of its JSON. Null and missing fields are
// equal there.
type (
	endpointSlice struct {
		Metadata    objectMeta     `json:"metadata"`
		AddressType string         `json:"addressType"` // IPv4, IPv6 or FQDN
		Endpoints   []endpoint     `json:"endpoints"`
		Ports       []endpointPort `json:"ports"`
		unread      error          // why all but the name may be missing
	}
	endpoint struct {
		Addresses  []string `json:"addresses"`
		Conditions struct {
			Ready       *bool `json:"ready"`
			Terminating *bool `json:"terminating"`
		} `json:"conditions"`
		TargetRef targetRef `json:"targetRef"`
	}
	// targetRef is the pod of an endpoint; zero: the endpoint is none's.
	targetRef struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		UID       string `json:"uid"`
	}
	endpointPort struct {
		Name        string `json:"name"`
		Port        int    `json:"port"`
		AppProtocol string `json:"appProtocol"`
	}
	objectMeta struct {
		Name            string            `json:"name"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	}
	endpointSliceList struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
			Continue        string `json:"continue"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}
	watchEvent struct {
		Type   string          `json:"type"` // ADDED, MODIFIED, DELETED, BOOKMARK, ERROR
		Object json.RawMessage `json:"object"`
	}
	apiStatus struct {
		Message string `json:"message"`
		Code    int    `json:"code"`
	}
)

const (
	// kubePatience bounds a list and the head of a watch.
	kubePatience = 10 * time.Second
	// watchFor is how long the server keeps one watch. A watch without a byte for longer is
	// dead: its server vanished. It is shorter than client-go's 5 to 10 min, because nothing
	// else detects that over HTTP/1.1.
	watchFor = 2 * time.Minute
	// kubeSilence is the time without a byte after which a connection of HTTP/2 must answer a
	// ping, within as long again: a middlebox may hold a dead one open.
	kubeSilence = 10 * time.Second
	// pageOf is how many slices one answer has: of 100 endpoints each.
	pageOf = 500
	// maxAnswer bounds a page: 100 KB a slice.
	maxAnswer = 64 << 20
)

// kubeAPI is the address of the API server with this process's credentials.
type kubeAPI struct {
	base, ca, token, home string
	silence               time.Duration // kubeSilence
	life                  time.Duration // watchFor
	longest               int           // bytes of a message of a watch
}

// errGone is a version that the API server does not remember any more.
var errGone = errors.New("discover: the version is too old to watch from")

// podFiles is the folder with a pod's credentials.
const podFiles = "/var/run/secrets/kubernetes.io/serviceaccount"

// newKubeAPI takes missing settings from the pod of this process.
func newKubeAPI(base, ca, token string) (kubeAPI, error) {
	a := kubeAPI{base: strings.TrimRight(base, "/"), ca: ca, token: token, home: podFiles, silence: kubeSilence, life: watchFor, longest: maxAnswer}
	if a.base == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return a, errors.New("this is no pod (KUBERNETES_SERVICE_HOST is not set): give the API server by ?api=URL, for instance that of kubectl proxy")
		}
		a.base = "https://" + net.JoinHostPort(host, port)
		if a.ca == "" {
			a.ca = filepath.Join(podFiles, "ca.crt")
		}
		if a.token == "" {
			a.token = filepath.Join(podFiles, "token")
		}
	}
	u, err := url.Parse(a.base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return a, fmt.Errorf("cannot use API server %q: want http://host:port or https://host:port", a.base)
	}
	return a, nil
}

// namespace returns ours where none is given.
func (a *kubeAPI) namespace(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	name, err := regularfile.Read(filepath.Join(a.home, "namespace"), maxFile)
	if err != nil {
		return "", fmt.Errorf("cannot tell the namespace: give it as kubernetes:NAMESPACE/SERVICE: %w", err)
	}
	return strings.TrimSpace(string(name)), nil
}

// kubeClient speaks to the API server.
type kubeClient struct {
	*http.Client
	api kubeAPI
}

func (a *kubeAPI) client() (*kubeClient, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		var err error
		if settings, err = (tlsFiles{ca: a.ca}).load(); err != nil {
			return nil, err
		}
	}
	return &kubeClient{&http.Client{Transport: &http.Transport{
		TLSClientConfig: settings, ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{SendPingTimeout: a.silence, PingTimeout: a.silence}, TLSHandshakeTimeout: kubePatience, ResponseHeaderTimeout: kubePatience,
		IdleConnTimeout: time.Minute, DialContext: (&net.Dialer{Timeout: kubePatience}).DialContext, Proxy: http.ProxyFromEnvironment,
	}}, *a}, nil
}

// get requests path; the caller closes the body.
func (c *kubeClient) get(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api.base+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if c.api.token != "" {
		// Again, because it is replaced every hour.
		token, err := regularfile.Read(c.api.token, maxFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		var st apiStatus
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		_ = json.Unmarshal(body, &st)
		if resp.StatusCode == http.StatusGone {
			return nil, fmt.Errorf("%w: %s", errGone, st.Message)
		}
		seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
		return nil, refusedError{fmt.Errorf("the API server answered %d: %s", resp.StatusCode, st.Message), time.Duration(seconds) * time.Second}
	}
	return resp.Body, nil
}

// refusedError is a refusal of the API server, with the time after which it wants to be asked
// again.
type refusedError struct {
	error
	retryAfter time.Duration
}

// list returns the slices by name, and the version to watch from.
func (c *kubeClient) list(ctx context.Context, path, selector string) (known map[string]*endpointSlice, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubePatience)
	defer cancel()
	known = map[string]*endpointSlice{}
	query := url.Values{"labelSelector": {selector}, "limit": {strconv.Itoa(pageOf)}}
	for {
		body, err := c.get(ctx, path, query)
		if err != nil {
			return nil, "", err
		}
		var page endpointSliceList
		err = json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&page)
		_ = body.Close()
		if err != nil {
			return nil, "", err
		}
		for _, item := range page.Items {
			s, err := readSlice(item)
			if err != nil {
				return nil, "", err
			}
			known[s.Metadata.Name] = s
		}
		if page.Metadata.Continue == "" {
			return known, page.Metadata.ResourceVersion, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// readSlice decodes a slice. One with fields of other types keeps its name.
func readSlice(object json.RawMessage) (*endpointSlice, error) {
	s := &endpointSlice{}
	var mistyped *json.UnmarshalTypeError // all other fields are decoded
	if err := json.Unmarshal(object, s); errors.As(err, &mistyped) {
		s.unread = fmt.Errorf("its field %s is a JSON %s: want %s", mistyped.Field, mistyped.Value, mistyped.Type)
	} else if err != nil {
		return nil, fmt.Errorf("cannot read an EndpointSlice: %w", err)
	}
	if s.Metadata.Name == "" {
		return nil, errors.New("cannot read an EndpointSlice: it has no metadata.name")
	}
	return s, nil
}

// watch calls changed with each change after version until the server ends the watch, and
// returns the version to resume at.
func (c *kubeClient) watch(ctx context.Context, path, selector, version string, changed func(kind string, s *endpointSlice) error) (string, error) {
	// The server ends it by itself; where that does not come, we do.
	ctx, cancel := context.WithTimeout(ctx, c.api.life+kubePatience)
	defer cancel()
	body, err := c.get(ctx, path, url.Values{
		"labelSelector": {selector}, "watch": {"1"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"},
		"timeoutSeconds": {strconv.Itoa(int(c.api.life.Seconds()))},
	})
	if err != nil {
		return "", err
	}
	defer body.Close()
	for events := newMessages(body, c.api.longest); ; {
		var e watchEvent
		if err := events.next(&e); errors.Is(err, io.EOF) {
			return version, nil
		} else if err != nil {
			return "", err
		}
		switch e.Type {
		case "BOOKMARK":
			var at struct {
				Metadata objectMeta `json:"metadata"`
			}
			if err := json.Unmarshal(e.Object, &at); err != nil {
				return "", fmt.Errorf("cannot read a bookmark: %w", err)
			}
			version = at.Metadata.ResourceVersion
		case "ADDED", "MODIFIED", "DELETED":
			s, err := readSlice(e.Object)
			if err != nil {
				return "", err
			}
			version = s.Metadata.ResourceVersion
			if err := changed(e.Type, s); err != nil {
				return "", err
			}
		case "ERROR": // 410 where version is too old: all is listed again
			var st apiStatus
			_ = json.Unmarshal(e.Object, &st)
			if st.Code == http.StatusGone {
				return "", errGone
			}
			return "", fmt.Errorf("the API server said %d: %s", st.Code, st.Message)
		}
	}
}
