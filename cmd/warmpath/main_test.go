package main

import (
	"flag"
	"os"
	"testing"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
)

// asWarmpath, when set, makes this test binary warmpath itself: some tests start it as a process.
const asWarmpath = "WARMPATH_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asWarmpath) != "" {
		main()
		return
	}
	_ = flag.Set("test.parallel", "6") // -parallel overrides it: tests wait for most of their time
	state, err := os.MkdirTemp("", "warmpath-state-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state) // of this process and of those that it starts
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	natstest.Clean()
	_ = os.RemoveAll(state)
	os.Exit(code)
}
