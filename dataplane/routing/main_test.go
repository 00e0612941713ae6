package routing_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) {
	// A probing client's cleaner sleeps for up to 10 s after its last connection
	// and ends then.
	leaktest.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"))
}
