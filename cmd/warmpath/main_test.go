package main

import (
	"flag"
	"os"
	"testing"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

// asWarmpath, when set, makes this test binary warmpath itself: some tests start it as a process.
const asWarmpath = "WARMPATH_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asWarmpath) != "" {
		main()
		return
	}
	_ = flag.Set("test.parallel", "6") // -parallel overrides it: tests wait for most of their time
	leaktest.Folder()
	if err := os.Setenv("XDG_STATE_HOME", os.TempDir()); err != nil { // of this process and of those that it starts
		panic(err)
	}
	os.Exit(m.Run())
}
