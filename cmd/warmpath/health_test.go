package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func TestHealthCommand(t *testing.T) {
	alive := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer alive.Close()
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer ill.Close()
	tests := []struct {
		name string
		urls []string
		want string // in the output, or in the error when there is none
		ok   bool
	}{
		{"alive", []string{alive.URL + "/"}, "ok " + alive.URL, true},
		{"one of two", []string{ill.URL, alive.URL}, "ok " + alive.URL, true},
		{"ill", []string{ill.URL}, "503", false},
		{"nobody there", []string{"http://127.0.0.1:1"}, "refused", false},
		{"no URL", []string{"://"}, "cannot ask", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot()
			root.SetOut(&out)
			root.SetArgs(append([]string{"health", "--timeout", patience.String()}, test.urls...))
			err := root.ExecuteContext(t.Context())
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			if (err == nil) != test.ok || !strings.Contains(said, test.want) {
				t.Errorf("health %q said %q, %v; want %q", test.urls, out.String(), err, test.want)
			}
		})
	}
}

func TestHealthURLs(t *testing.T) {
	tests := []struct {
		listen string
		want   []string
	}{
		{"", []string{"http://127.0.0.1:8000", "http://127.0.0.1:9400"}},
		{"0.0.0.0:7000", []string{"http://127.0.0.1:7000"}},
		{"[::]:7000", []string{"http://127.0.0.1:7000"}},
		{":7000", []string{"http://127.0.0.1:7000"}},
		{"10.1.2.3:7000", []string{"http://10.1.2.3:7000"}},
	}
	for _, test := range tests {
		if got := healthURLs(test.listen); !slices.Equal(got, test.want) {
			t.Errorf("healthURLs(%q) = %q, want %q", test.listen, got, test.want)
		}
	}
}
