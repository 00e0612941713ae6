package sidecar

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, leaktest.FastHTTP()...) }
