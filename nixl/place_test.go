package nixl_test

import (
	"testing"

	"github.com/warmpath/warmpath/nixl"
)

func TestHere(t *testing.T) {
	p := nixl.Here("/")
	if !p.Known() {
		t.Errorf("Here() = %+v, want all of it", p)
	}
	if why := p.Withheld(&p); len(why) > 0 && !p.Hidden {
		t.Errorf("a process does not read itself: %q", why)
	}
	nothing := nixl.Here(t.TempDir())
	if nothing.Known() {
		t.Errorf("without /proc: %+v", nothing)
	}
}

func TestAllowsCMA(t *testing.T) {
	tests := map[string]bool{
		"": true, "all": true, "tcp": false, "tcp,self": false, "tcp,cma": true, "sm,self": true, "shm": true, "^tcp": true, "^cma": false, "^tcp,sm": false, "rc,cuda_copy": false,
	}
	for transports, want := range tests {
		if got := nixl.AllowsCMA(transports); got != want {
			t.Errorf("AllowsCMA(%q) = %v, want %v", transports, got, want)
		}
	}
}
