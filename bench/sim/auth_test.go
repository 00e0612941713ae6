package sim

import (
	"net/http"
	"strings"
	"testing"
)

// TestKeys holds the simulated worker to SGLang's decide_request_auth.
func TestKeys(t *testing.T) {
	const api, admin = "Bearer api", "bearer admin"
	for _, tt := range []struct {
		api, admin string // the worker's
		method     string
		path       string
		header     string
		want       int
	}{
		{"", "", "GET", "/server_info", "", 200},
		{"", "", "POST", "/flush_cache", "", 200},
		{"api", "", "GET", "/server_info", "", 401},
		{"api", "", "GET", "/server_info", "Bearer wrong", 401},
		{"api", "", "GET", "/server_info", "Basic api", 401},
		{"api", "", "GET", "/server_info", api, 200},
		{"api", "", "GET", "/v1/models", "", 401},
		{"api", "", "GET", "/v1/loads", "", 401},
		{"api", "", "GET", "/ready", "", 200},
		{"api", "", "GET", "/health", "", 200},
		{"api", "", "GET", "/nothing", "", 401},
		{"api", "", "POST", "/flush_cache", "", 401},
		{"api", "", "POST", "/flush_cache", api, 200},
		{"api", "admin", "GET", "/server_info", api, 200},
		{"api", "admin", "GET", "/server_info", admin, 401},
		{"api", "admin", "POST", "/flush_cache", api, 401},
		{"api", "admin", "POST", "/abort_request", api, 401},
		{"api", "admin", "POST", "/flush_cache", admin, 200},
		{"", "admin", "GET", "/server_info", "", 200},
		{"", "admin", "POST", "/flush_cache", "", 401},
		{"", "admin", "POST", "/abort_request", admin, 200},
	} {
		cfg := fast()
		cfg.APIKey, cfg.AdminAPIKey = tt.api, tt.admin
		w := startWorker(t, cfg)
		header := map[string]string{}
		if tt.header != "" {
			header["Authorization"] = tt.header
		}
		r := send(t, w, tt.method, tt.path, `{"rid":"x"}`, header)
		if r.status != tt.want {
			t.Errorf("%+v: got %d %s", tt, r.status, r.body)
		}
		if r.status == http.StatusUnauthorized && string(r.body) != `{"error":"Unauthorized"}` {
			t.Errorf("%+v: got %s", tt, r.body)
		}
		if tt.path == "/server_info" && r.status == http.StatusOK && tt.api != "" && !strings.Contains(string(r.body), `"api_key":"api"`) {
			t.Errorf("%+v: SGLang gives its key away, and this does not: %s", tt, r.body)
		}
	}
}
