package discover_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestParseEntries(t *testing.T) {
	prefill := worker.Spec{URL: "http://b:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Port: 8998}}
	named := worker.Spec{URL: "http://b:1", Role: worker.RolePrefill, Bootstrap: worker.Bootstrap{Host: "10.0.0.1", Port: 9000}}
	tests := map[string][]worker.Spec{
		"http://a:1": {{URL: "http://a:1"}},
		"# two\n\nhttp://a:1/ \nhttps://c decode # there\n": {{URL: "http://a:1"}, {URL: "https://c", Role: worker.RoleDecode}},
		"http://b:1\tprefill\t8998":                         {prefill},
		"http://b:1 prefill 10.0.0.1:9000":                  {named},
		"# nobody\n":                                        nil,
		"[]":                                                {},
		"workers: []":                                       {},
		"- http://a:1\n- http://b:1 prefill 8998":           {{URL: "http://a:1"}, prefill},
		"workers:\n  - url: http://b:1\n    role: prefill\n    bootstrap: 8998":    {prefill},
		"# yaml\n- {url: http://b:1, role: prefill, bootstrap: \"10.0.0.1:9000\"}": {named},
		`[{"url": "http://a:1", "drain": true}]`:                                   {{URL: "http://a:1", Drain: true}},
		`{"url": "http://a:1"}`:                                                    {{URL: "http://a:1"}},
		"role: decode\nurl: http://a:1":                                            {{URL: "http://a:1", Role: worker.RoleDecode}},
		"http://[::1]:30000":                                                       {{URL: "http://[::1]:30000"}},
	}
	for text, want := range tests {
		got, err := discover.ParseEntries([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, len(want), len(got), text)
		if len(want) > 0 {
			require.Equal(t, want, got, text)
		}
	}
}

func TestParseEntriesNamesTheLine(t *testing.T) {
	tests := map[string]string{
		"":                                     "write []",
		" \n\n":                                "write []",
		"---\n":                                "want a list of workers",
		"http://a:1\nftp://b:1":                "line 2:",
		"http://a:1\n\nhttp://a:1/":            "line 3: discover: bad entry: http://a:1 is in line 1 already",
		"http://a:1 prefil":                    `line 1: discover: bad entry: cannot use role "prefil"`,
		"http://a:1 decode 8998":               "bootstrap is for prefill workers only",
		"http://a:1 prefill 0":                 "want a port from 1 to 65535",
		"http://a:1 prefill :9":                "want PORT or HOST:PORT",
		"http://a:1 prefill 1 2":               "want URL [ROLE [BOOTSTRAP]]",
		"http://a:1/v1":                        "a path, query or fragment",
		"workers:\n  - http://a:1\n  - nobody": "line 3:",
		"- http://a:1\n- {url: http://b:1, rol: prefill}":    `line 2: discover: bad entry: there is no field "rol": want url, role`,
		"- http://a:1\n- url: http://b:1\n  role: [prefill]": "line 3: discover: bad entry: role has no value, or more than one",
		"- url: http://b:1\n  url: http://c:1":               "line 2: discover: bad entry: url is there twice",
		"- {url: http://b:1, drain: maybe}":                  "line 1:",
		"- {role: prefill}":                                  "line 1:",
		"- url: http://b:1\n  bootstrap:\n  role: prefill":   "bootstrap has no value",
		"workers: 3":                        "want a list of workers",
		"- [x]":                             "want a URL or a map with url",
		"- http://a:1\n- {url: 'http://b:1": "line 2",
		"- http://a:1\n- http://a:1":        "http://a:1 is in line 1 already",
		strings.Repeat("- http://a:1\n", 2) + "other:\n  - x\n": "line",
	}
	for text, want := range tests {
		_, err := discover.ParseEntries([]byte(text))
		require.ErrorIs(t, err, discover.ErrEntry, text)
		require.ErrorContains(t, err, want, text)
	}
	var many strings.Builder
	for i := range 16<<10 + 1 {
		fmt.Fprintf(&many, "http://w%d\n", i)
	}
	_, err := discover.ParseEntries([]byte(many.String()))
	require.ErrorContains(t, err, "want at most 16384")
}

// FuzzParseEntries checks that parsed entries are in the registry's form, name no worker twice,
// and survive being written as lines and read again.
func FuzzParseEntries(f *testing.F) {
	for _, s := range []string{
		"http://a:1 prefill 8998", "- {url: http://b:1, role: prefill, bootstrap: \"h:9000\"}", "workers:\n - http://a", `[{"url":"http://a","drain":true}]`,
		"&x http://a:1", "- &a http://a:1\n- *a", "%YAML 1.2\n---\n- http://a", "http://[fe80::1%25eth0]:1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		specs, err := discover.ParseEntries(data)
		if err != nil {
			return
		}
		list, seen, drains := []string{"# workers"}, map[string]bool{}, false
		for _, s := range specs {
			normal, err := s.Normal()
			require.NoError(t, err)
			require.Equal(t, normal, s)
			require.False(t, seen[s.URL])
			seen[s.URL], drains = true, drains || s.Drain
			line := s.URL + " " + s.Role.String()
			if b := s.Bootstrap; b.Host != "" {
				line += " " + b.Addr()
			} else if b.Port != 0 {
				line += fmt.Sprint(" ", b.Port)
			}
			list = append(list, line)
		}
		lines := strings.Join(list, "\n")
		if drains || strings.ContainsAny(strings.Join(urlsOf(specs), ""), "# \t\r\n\v\f\u0085\u00a0") { // lines have no word for these
			return
		}
		again, err := discover.ParseEntries([]byte(lines))
		require.NoError(t, err, lines)
		require.Equal(t, len(specs), len(again))
		for i := range specs {
			require.Equal(t, specs[i], again[i])
		}
	})
}

// No error and no name of a source has a password that an entry or an address has.
func TestPasswordsOfEntriesAreNotPrinted(t *testing.T) {
	for _, text := range []string{
		"http://u:secret@h:1", "http://u:secret@h:1 decode 5", "http://u:sec secret@h:1", "http://u:1 prefill secret@h", "a b c d:secret@h",
		"- url: http://u:secret@h:1", `[{"url": "http://u:secret@h:1", "role": "secret@x"}]`,
	} {
		_, err := discover.ParseEntries([]byte(text))
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "sec", text)
	}
	for _, text := range []string{"etcd:u:secret@h:2379", "etcd:u:secret@h:2379/p?x=1", "nowhere://u:secret@h", "u:secret@h"} {
		_, err := discover.Parse(text, slog.New(slog.DiscardHandler))
		require.ErrorIs(t, err, discover.ErrSource, text)
		require.NotContains(t, err.Error(), "sec", text)
	}
}
