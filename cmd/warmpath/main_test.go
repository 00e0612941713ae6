package main

import (
	"flag"
	"os"
	"testing"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

// asWarmpath, when set, makes this test binary warmpath itself. It is set for all processes that the
// tests start, and those that warmpath starts of itself.
const asWarmpath = "WARMPATH_TEST_AS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asWarmpath) != "" {
		main()
		return
	}
	_ = flag.Set("test.parallel", "6") // -parallel overrides it: tests wait for most of their time
	leaktest.Folder()
	for name, value := range map[string]string{"XDG_STATE_HOME": os.TempDir(), asWarmpath: "1"} {
		if err := os.Setenv(name, value); err != nil { // of this process and of those that it starts
			panic(err)
		}
	}
	os.Exit(m.Run())
}
