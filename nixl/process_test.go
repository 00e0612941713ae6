package nixl_test

import (
	"testing"

	"github.com/warmpath/warmpath/nixl"
)

func TestReadProcessIdentity(t *testing.T) {
	p := nixl.ReadProcessIdentity("/")
	if !p.Complete() {
		t.Errorf("ReadProcessIdentity() = %+v, want all fields", p)
	}
	if denials := p.ReadDenials(&p); len(denials) > 0 && !p.Hidden {
		t.Errorf("a process may not read itself: %q", denials)
	}
	nothing := nixl.ReadProcessIdentity(t.TempDir())
	if nothing.Complete() {
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
