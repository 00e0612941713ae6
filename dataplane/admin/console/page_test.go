package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/admin/console"
)

// listed returns the checksums that the last build wrote, by the name of the file below ui.
func listed(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("static/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	return sums
}

// TestBuild: static is the build of these sources, and nobody has changed it since. It needs no
// node: the build wrote the checksums of both.
func TestBuild(t *testing.T) {
	found := map[string]string{}
	for _, pattern := range []string{"*.json", "*.mjs", "src/*", "../static/*"} {
		files, err := filepath.Glob("ui/" + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "SHA256SUMS") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			name, err := filepath.Rel("ui", file)
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.ToSlash(name)] = hex.EncodeToString(sum[:])
		}
	}
	if want := listed(t); !maps.Equal(found, want) {
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if found[name] != want[name] {
				t.Errorf("%s has changed since the last build", name)
			}
		}
		t.Error("the console's build is not of its sources: run make console")
	}
}

// TestPageRefersToNoOtherHost: the page works without a network, and tells nobody that it is open.
// Only names of XML namespaces look like addresses.
func TestPageRefersToNoOtherHost(t *testing.T) {
	for _, path := range []string{"/", "/console", "/console/console.js", "/console/console.css"} {
		body, kind := console.File(path)
		if len(body) == 0 || kind == "" {
			t.Fatalf("no file %s", path)
		}
		outside := regexp.MustCompile(`(?i)(https?|wss?)://[^"'\x60)\s]*|@import|url\([^)]*\)`)
		for _, found := range outside.FindAllString(string(body), -1) {
			if !strings.Contains(found, "://www.w3.org/") {
				t.Errorf("%s refers to %q", path, found)
			}
		}
	}
}

func TestPolicyIsStrict(t *testing.T) {
	for _, word := range []string{"unsafe", "*", "http"} {
		assert.NotContains(t, console.ContentSecurityPolicy, word)
	}
	page, _ := console.File("/")
	for _, inline := range []string{"<style", " style=", " onload=", "<script>"} {
		if strings.Contains(string(page), inline) {
			t.Errorf("the page holds %q, which its policy forbids", inline)
		}
	}
}

func TestOtherPathsAreNotThePages(t *testing.T) {
	for _, path := range []string{"", "/console/", "/console/SHA256SUMS", "/console.js", "/console/../status"} {
		if console.Has(path) {
			t.Errorf("the page has %q", path)
		}
	}
}
