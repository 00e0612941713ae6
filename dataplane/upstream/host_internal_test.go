package upstream

import (
	"crypto/tls"
	"testing"
)

func TestHostOfATarget(t *testing.T) {
	for _, tt := range []struct {
		target Target
		want   string
	}{
		{Target{Addr: "engine.svc:30000"}, "engine.svc:30000"},
		{Target{Addr: "engine.svc:80"}, "engine.svc"},
		{Target{Addr: "engine.svc:8080"}, "engine.svc:8080"},
		{Target{Addr: "[fd00::80]:80"}, "[fd00::80]"},
		{Target{Addr: "engine.svc:443"}, "engine.svc:443"},
		{Target{Addr: "engine.svc:443", TLS: &tls.Config{}}, "engine.svc"},
		{Target{Addr: "engine.svc:80", TLS: &tls.Config{}}, "engine.svc:80"},
	} {
		if got := tt.target.host(); got != tt.want {
			t.Errorf("host of %s with TLS %v = %q, want %q", tt.target.Addr, tt.target.TLS != nil, got, tt.want)
		}
	}
}
