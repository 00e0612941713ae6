package request

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestADeadEngineIsDialledOnce: all that were in flight there learn of its death by one connection, one after another as well. A request
// that was sent later met another process.
func TestADeadEngineIsDialledOnce(t *testing.T) {
	dials, answer := 0, error(syscall.ECONNREFUSED)
	c := newCulprits(&Config{})
	c.dial = func(string) (net.Conn, error) {
		dials++
		conn, _ := net.Pipe()
		return conn, answer
	}
	a, b := &worker.Worker{URL: "http://a:1", Addr: "a:1"}, &worker.Worker{URL: "http://b:1", Addr: "b:1"}
	sent := time.Now()
	for range 2000 {
		assert.True(t, c.gone(a, sent, false))
		assert.True(t, c.gone(b, sent, false))
	}
	assert.Equal(t, 2, dials)
	answer = nil
	later := time.Now().Add(time.Minute)
	assert.False(t, c.gone(a, later, false), "the engine has been started again")
	assert.Equal(t, 3, dials)
	assert.True(t, c.gone(a, sent, false), "its predecessor has died all the same")
	assert.Equal(t, 3, dials)
}
