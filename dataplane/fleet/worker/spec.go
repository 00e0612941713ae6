package worker

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Role is the part of a request that a worker does.
type Role uint8

const (
	// RoleRegular does prefill and decode.
	RoleRegular Role = iota
	// RolePrefill computes prompts and sends their KV pages to a decode worker.
	RolePrefill
	// RoleDecode takes pages and generates.
	RoleDecode
)

var roleNames = [...]string{"regular", "prefill", "decode"}

// String names the role as /status and metrics show it.
func (r Role) String() string { return roleNames[r] }

// mode is the role in SGLang's words.
func (r Role) mode() string { return [...]string{"null", "prefill", "decode"}[r] }

// Bootstrap is the address of a prefill worker's bootstrap server, where decode workers find its
// ranks.
type Bootstrap struct {
	Host string // a name or an address, without brackets
	Port int
}

// Addr returns host:port to dial.
func (b Bootstrap) Addr() string { return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) }

// DefaultBootstrapPort is SGLang's --disaggregation-bootstrap-port.
const DefaultBootstrapPort = 8998

// Spec is a worker as an operator names it.
type Spec struct {
	URL string
	// Role is the operator's expectation; the worker's own role wins. RoleRegular expects
	// nothing.
	Role Role
	// Bootstrap is for prefill workers. An empty host is the URL's, a port of 0 the worker's
	// own: it serves networks in which decode workers reach the worker by another name or port.
	Bootstrap Bootstrap
	// Drain is the source's wish that the worker finishes its requests and gets no new one.
	Drain bool
}

// Normal returns the spec as the registry keeps it, its URL in one form, or why it cannot be one.
func (s Spec) Normal() (Spec, error) {
	u, _, err := splitURL(s.URL)
	if err != nil {
		return s, err
	}
	if s.Bootstrap.Port < 0 || s.Bootstrap.Port > 65535 {
		return s, fmt.Errorf("cannot use worker %q: %w: want a bootstrap port from 1 to 65535", s.URL, ErrBadURL)
	}
	s.URL = u.Scheme + "://" + strings.ReplaceAll(u.Host, "%", "%25") // of a zone of IPv6
	return s, nil
}

// NormalURL returns a worker's URL in the form of [Spec.Normal]. Text that is none, such as a
// node's name, stays as it is.
func NormalURL(text string) string {
	spec, err := Spec{URL: text}.Normal()
	if err != nil {
		return text
	}
	return spec.URL
}

// ParseRole reads a role as String names it; "" is regular.
func ParseRole(name string) (Role, error) {
	at := slices.Index(roleNames[:], cmp.Or(name, roleNames[RoleRegular]))
	if at < 0 {
		return 0, fmt.Errorf("cannot use role %q: %w: want regular, prefill or decode", secrets.MaskURL(name), ErrBadURL)
	}
	return Role(at), nil
}

// ParsePrefill reads "URL", "URL,PORT" or "URL,HOST:PORT" of a prefill worker.
func ParsePrefill(text string) (Spec, error) {
	url, at, found := strings.Cut(text, ",")
	s := Spec{URL: url, Role: RolePrefill}
	if !found {
		return s, nil
	}
	port := at
	if strings.Contains(at, ":") {
		var err error
		if s.Bootstrap.Host, port, err = net.SplitHostPort(at); err != nil {
			return Spec{}, fmt.Errorf("cannot use prefill worker %q: %w: want URL,PORT or URL,HOST:PORT", secrets.MaskURL(text), ErrBadURL)
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return Spec{}, fmt.Errorf("cannot use prefill worker %q: %w: want URL,PORT or URL,HOST:PORT with a bootstrap port from 1 to 65535", secrets.MaskURL(text), ErrBadURL)
	}
	s.Bootstrap.Port = int(n)
	return s, nil
}

// splitURL checks a worker's URL, whose scheme is http where it has none, and writes its host in
// one form, without a scheme's usual port (RFC 3986, 6.2); port is the one to dial.
func splitURL(raw string) (u *url.URL, port string, err error) {
	if strings.ContainsRune(raw, '@') { // the parser's errors quote parts of a password
		return nil, "", fmt.Errorf("cannot use worker %q: %w: a user or password is not supported; the keys of workers are in --worker-api-key-file", secrets.MaskURL(raw), ErrBadURL)
	}
	full := strings.TrimRight(raw, "/")
	if _, _, err := net.SplitHostPort(full); err == nil && !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err = url.Parse(full)
	if err != nil {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: %w", secrets.MaskURL(raw), ErrBadURL, secrets.URLError(err))
	}
	if !printable(full) || !printable(u.Host) || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want http://host:port, https://host:port or host:port", secrets.MaskURL(raw), ErrBadURL)
	}
	if u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: a path, query or fragment is not supported", secrets.MaskURL(raw), ErrBadURL)
	}
	port = u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); strings.HasSuffix(u.Host, ":") || (port != "" && (err != nil || n == 0)) {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want a port from 1 to 65535", secrets.MaskURL(raw), ErrBadURL)
	}
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	port = cmp.Or(port, usual)
	u.Host = net.JoinHostPort(normalHost(u.Hostname()), port)
	if port == usual {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return u, port, nil
}

// normalHost returns a host in the form that all spellings of it have.
func normalHost(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(host)
}

// printable reports whether a URL, or its host without escapes, is visible ASCII, as URLs are. It
// is shown to operators, and a label of metrics, which are lost with one that is no UTF-8.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// Role returns the worker's own role, and until it is known the role of its spec.
func (w *Worker) Role() Role {
	if info := w.Info(); info != nil {
		return info.Role()
	}
	return w.spec.Load().Role
}

// Bootstrap returns the address of the bootstrap server; zero unless it is a prefill worker.
func (w *Worker) Bootstrap() Bootstrap {
	info := w.Info()
	if info == nil || info.Role() != RolePrefill {
		return Bootstrap{}
	}
	b := w.spec.Load().Bootstrap
	return Bootstrap{Host: cmp.Or(b.Host, w.host), Port: cmp.Or(b.Port, info.BootstrapPort, DefaultBootstrapPort)}
}
