package sidecar

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) {
	// A client's cleaner sleeps for up to 10 s after its last connection and ends then; the
	// others are fasthttp's for good.
	leaktest.Main(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}
