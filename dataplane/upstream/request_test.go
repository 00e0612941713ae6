package upstream_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// heads sends requests and returns their heads as the worker got them.
func sendHead(t *testing.T, req *upstream.Request) (string, error) {
	t.Helper()
	got := make(chan string, 1)
	w := startWorker(t, func(_ int, p *peer) {
		head, _, _ := p.request()
		got <- head
		p.send(ok)
	})
	if req.Target.Addr == "" {
		req.Target = target(w.addr())
	}
	if _, _, err := get(newTransport(t, upstream.Config{}), req); err != nil {
		return "", err
	}
	return strings.ReplaceAll(<-got, w.addr(), "ADDR"), nil
}

func TestRequestHead(t *testing.T) { tlstest.OverBoth(t, testRequestHead) }

func testRequestHead(t *testing.T) {
	// Each head has the field that we put in place of the client's, behind Host.
	const line, identity = "POST /v1 HTTP/1.1\r\n", "Accept-Encoding: identity\r\n"
	tests := []struct {
		name   string
		header string
		extra  []upstream.Field
		body   []string
		want   string
	}{
		{name: "bare", want: "Host: ADDR\r\nContent-Length: 0\r\n"},
		{name: "host of the target", header: "Host: client\r\n", want: "Host: ADDR\r\nContent-Length: 0\r\n"},
		{name: "body parts", body: []string{"ab", "", "c"}, want: "Host: ADDR\r\nContent-Length: 3\r\n"},
		{
			name:   "end to end fields pass",
			header: "Host: c\r\nContent-Type: application/json\r\nUser-Agent: ua\r\nCookie: a=b\r\nAuthorization: Bearer x\r\nX-A: 1\r\nX-A: 2\r\n",
			want:   "Host: ADDR\r\nContent-Type: application/json\r\nUser-Agent: ua\r\nCookie: a=b\r\nAuthorization: Bearer x\r\nX-A: 1\r\nX-A: 2\r\nContent-Length: 0\r\n",
		},
		{
			name: "hop by hop fields end here",
			header: "Host: c\r\nConnection: keep-alive, X-Mine\r\nKeep-Alive: 5\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: x\r\n" +
				"Proxy-Connection: keep-alive\r\nX-Mine: 1\r\nExpect: 100-continue\r\nX-Other: 1\r\n",
			want: "Host: ADDR\r\nTE: trailers\r\nConnection: TE\r\nX-Other: 1\r\nContent-Length: 0\r\n",
		},
		{name: "other codings end here", header: "Host: c\r\nTE: gzip, deflate;q=0.5\r\n", want: "Host: ADDR\r\nContent-Length: 0\r\n"},
		{
			name: "trailers said twice", header: "Host: c\r\nConnection: TE\r\nTE: gzip;q=0.1, Trailers\r\nTE: trailers\r\n",
			want: "Host: ADDR\r\nTE: trailers\r\nConnection: TE\r\nContent-Length: 0\r\n",
		},
		{name: "compression is not for workers", header: "Host: c\r\nAccept-Encoding: gzip, br\r\n", want: "Host: ADDR\r\nContent-Length: 0\r\n"},
		{
			name: "fields of gateways end here", header: "Host: c\r\nX-Override-Priority: 9\r\nx-override-bootstrap-host: evil\r\nX-SMG-Routing-Key: k\r\nX-Over: 1\r\n",
			want: "Host: ADDR\r\nX-Over: 1\r\nContent-Length: 0\r\n",
		},
		{
			name: "but for the router's own", header: "Host: c\r\nX-Override-Rid: client\r\n", extra: []upstream.Field{{Key: "X-Override-Rid", Value: []byte("router")}},
			want: "Host: ADDR\r\nX-Override-Rid: router\r\nContent-Length: 0\r\n",
		},
		{name: "close ends here", header: "Host: c\r\nConnection: close\r\n", want: "Host: ADDR\r\nContent-Length: 0\r\n"},
		{name: "client's framing", header: "Host: c\r\nTransfer-Encoding: chunked\r\n", body: []string{"x"}, want: "Host: ADDR\r\nContent-Length: 1\r\n"},
		{
			name: "extra replaces and removes", header: "Host: c\r\nAuthorization: Bearer client\r\nX-Request-Id: 1\r\nX-Gone: gzip\r\n",
			extra: []upstream.Field{{Key: "x-request-id", Value: []byte("2")}, {Key: "X-Gone"}, {Key: "X-New", Value: []byte{}}},
			want:  "Host: ADDR\r\nAuthorization: Bearer client\r\nx-request-id: 2\r\nX-New: \r\nContent-Length: 0\r\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := post("", tt.body...)
			req.Path, req.Extra = []byte("/v1"), tt.extra
			if tt.header != "" {
				req.Lines = upstream.AppendLines(nil, clientHeader(t, "POST /client HTTP/1.1\r\n"+tt.header+"\r\n"), tt.extra)
			}
			got, err := sendHead(t, req)
			host, rest, _ := strings.Cut(tt.want, "\r\n")
			if want := line + host + "\r\n" + identity + rest; err != nil || got != want {
				t.Errorf("head = %q %v, want %q", got, err, want)
			}
		})
	}
}

func TestGetHasNoLength(t *testing.T) {
	req := post("")
	req.Method = []byte("GET")
	if got, err := sendHead(t, req); err != nil || strings.Contains(got, "Content-Length") {
		t.Errorf("head = %q %v, want no Content-Length", got, err)
	}
}

func TestBadRequest(t *testing.T) {
	tests := []struct {
		name string
		edit func(*upstream.Request)
	}{
		{"no method", func(r *upstream.Request) { r.Method = nil }},
		{"no path", func(r *upstream.Request) { r.Path = nil }},
		{"space in path", func(r *upstream.Request) { r.Path = []byte("/a HTTP/1.1") }},
		{"line end in path", func(r *upstream.Request) { r.Path = []byte("/a\r\nX: y") }},
		{"line end in field", func(r *upstream.Request) { r.Extra = []upstream.Field{{Key: "A", Value: []byte("b\nC: d")}} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, each(ok))
			req := post(w.addr())
			tt.edit(req)
			_, _, err := get(newTransport(t, upstream.Config{}), req)
			wantErr(t, "get", err, upstream.ErrBadRequest)
		})
	}
}
