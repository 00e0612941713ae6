package router

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet"
)

// TestWorkersStayInTheirNetworks: no connection is made to an address outside of --worker-allow,
// whether it is named by its number or by a name, by an operator or by a worker.
func TestWorkersStayInTheirNetworks(t *testing.T) {
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer outside.Close()
	reached := make(chan struct{}, 1)
	go func() {
		for {
			conn, err := outside.Accept()
			if err != nil {
				return
			}
			conn.Close()
			reached <- struct{}{}
		}
	}()
	d, err := New(Config{Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{Allow: []string{"192.0.2.0/24"}}})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	defer func() { stop(); require.NoError(t, <-done) }()
	add := func(host string) int {
		_, port, _ := net.SplitHostPort(outside.Addr().String())
		resp, err := http.Post("http://"+d.Addr()+"/workers", "application/json", strings.NewReader(`{"url":"http://`+net.JoinHostPort(host, port)+`"}`))
		require.NoError(t, err)
		resp.Body.Close()
		return resp.StatusCode
	}
	assert.Equal(t, http.StatusBadRequest, add("127.0.0.1"))
	assert.Equal(t, http.StatusBadRequest, add("169.254.169.254"))
	require.Equal(t, http.StatusOK, add("localhost"), "a name is resolved when it is dialed")
	require.Eventually(t, func() bool {
		workers := d.Status().Workers
		return len(workers) == 1 && workers[0].State == "dead" && strings.Contains(workers[0].Error, "--worker-allow")
	}, 3*time.Minute, 5*time.Millisecond)
	assert.Empty(t, reached, "the router has connected")
	b := &builder{Router: d}
	assert.ErrorContains(t, b.checkEndpoint("tcp://169.254.169.254:5557"), "--worker-allow")
	assert.NoError(t, b.checkEndpoint("tcp://192.0.2.7:5557"))

	_, err = New(Config{Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{Workers: []string{"http://169.254.169.254"}}})
	assert.ErrorContains(t, err, "--worker-allow", "at the start too")
	_, err = New(Config{Listen: "127.0.0.1:0", Sources: fleet.SourceConfig{Allow: []string{"localhost"}}})
	assert.ErrorContains(t, err, "--worker-allow")
}
