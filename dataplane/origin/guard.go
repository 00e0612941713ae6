package origin

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

var (
	// ErrHost is a request for a name that this API is not known by. A page whose own name was
	// pointed at this machine (DNS rebinding) sends it.
	ErrHost = errors.New("origin: this API is not known by that name")
	// ErrOrigin is a request of a page that this server did not serve.
	ErrOrigin = errors.New("origin: another site's page sent the request")
	// ErrType is a body that a page could send without asking first.
	ErrType = errors.New("origin: the body is not declared as JSON")
)

// Guard checks requests. The zero value knows the names of loopback.
type Guard struct {
	// Hosts are more names under which the API is reached, "name" for any port or "name:port".
	Hosts []string
	// AnyHost skips the check of names: the caller checks a key, which no page has, or the API is
	// not on loopback alone.
	AnyHost bool
}

// Check returns why a request is refused, nil where it is not. Programs such as curl send neither
// Origin nor Sec-Fetch-Site, and pass.
func (g *Guard) Check(ctx *fasthttp.RequestCtx) error {
	host := strings.ToLower(string(ctx.Host()))
	if !g.AnyHost && !g.knows(host) {
		return fmt.Errorf("%w: %.100q is neither localhost nor an address of loopback; give the name in --operator-host", ErrHost, host)
	}
	if err := g.checkOrigin(ctx, host); err != nil {
		return err
	}
	return checkType(ctx)
}

// Status is the HTTP status that goes with an error of Check.
func Status(err error) int {
	if errors.Is(err, ErrType) {
		return fasthttp.StatusUnsupportedMediaType
	}
	return fasthttp.StatusForbidden
}

// knows reports whether the API is known by an authority.
func (g *Guard) knows(authority string) bool {
	name := hostOf(authority)
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Unmap().IsLoopback() {
			return true
		}
	} else if bare := strings.TrimSuffix(name, "."); bare == "localhost" || strings.HasSuffix(bare, ".localhost") {
		return true // RFC 6761 6.3: no DNS server is asked for these
	}
	return g.listed(authority, name)
}

// listed reports whether an operator gave the authority, or its host without a port.
func (g *Guard) listed(authority, host string) bool {
	return slices.ContainsFunc(g.Hosts, func(known string) bool {
		return known != "" && (strings.EqualFold(known, authority) || strings.EqualFold(strings.Trim(known, "[]"), host))
	})
}

// hostOf returns the host of "host:port" or "host", without the brackets of an address.
func hostOf(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// checkOrigin accepts pages of this server, and those that the operator opens.
func (g *Guard) checkOrigin(ctx *fasthttp.RequestCtx, host string) error {
	h := &ctx.Request.Header
	origins := h.PeekAll(fasthttp.HeaderOrigin)
	for _, o := range origins {
		if from := authorityOf(strings.ToLower(string(o))); from == "" || (from != withoutPort(host) && !slices.Contains(lower(g.Hosts), from)) {
			return fmt.Errorf("%w: its Origin is %.100q", ErrOrigin, o)
		}
	}
	for _, site := range h.PeekAll("Sec-Fetch-Site") {
		switch string(site) {
		case "same-origin", "none": // none: the operator typed the address
		default:
			// A link to the console is no danger: its page reads nothing that it was not made for.
			link := len(origins) == 0 && (ctx.IsGet() || ctx.IsHead()) &&
				string(h.Peek("Sec-Fetch-Mode")) == "navigate" && string(h.Peek("Sec-Fetch-Dest")) == "document"
			if !link {
				return fmt.Errorf("%w: its Sec-Fetch-Site is %.100q", ErrOrigin, site)
			}
		}
	}
	return nil
}

// authorityOf returns host:port of an origin, without the default port; "" of null and of what is
// no origin of HTTP.
func authorityOf(origin string) string {
	scheme, authority, found := strings.Cut(origin, "://")
	if !found || (scheme != "http" && scheme != "https") {
		return ""
	}
	return withoutPort(authority)
}

// withoutPort removes a default port, which browsers leave out of Origin and Host.
func withoutPort(authority string) string {
	for _, port := range []string{":80", ":443"} {
		if bare, found := strings.CutSuffix(authority, port); found && (!strings.Contains(bare, ":") || strings.HasSuffix(bare, "]")) {
			return bare
		}
	}
	return authority
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = withoutPort(strings.ToLower(name))
	}
	return out
}

// checkType refuses the types of forms, which a browser sends to any site without asking first.
// Browsers of before 2020 send them without an Origin too, so that curl -d, whose type is a form's,
// is not excepted. Programs that give no type pass: of a page such a body always has an Origin.
func checkType(ctx *fasthttp.RequestCtx) error {
	said := string(ctx.Request.Header.ContentType())
	if ctx.IsGet() || ctx.IsHead() || ctx.IsOptions() || said == "" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(said); err == nil && kind == "application/json" {
		return nil
	}
	return fmt.Errorf("%w: its Content-Type is %.100q; add -H 'Content-Type: application/json'", ErrType, said)
}
