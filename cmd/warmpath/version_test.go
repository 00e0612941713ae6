package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVersion: version, commit and date are there however the program was built.
func TestVersion(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-11-29T10:00:00Z"}}
	for name, c := range map[string]struct {
		linked build
		info   *debug.BuildInfo
		want   build
	}{
		"make":                       {build{"v1.2.3", "abc", "2026"}, &debug.BuildInfo{}, build{"v1.2.3", "abc", "2026"}},
		"make beside Go's":           {build{"v1.2.3", "abc", "2026"}, &debug.BuildInfo{Settings: vcs}, build{"v1.2.3", "abc", "2026"}},
		"go install of a tag":        {build{}, &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, build{"v1.2.3", "", ""}},
		"go install of a commit":     {build{}, &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261129101112-0123456789ab"}}, build{"v0.0.0-20261129101112-0123456789ab", "0123456789ab", "2026-11-29T10:11:12Z"}},
		"go install behind a tag":    {build{}, &debug.BuildInfo{Main: debug.Module{Version: "v1.2.4-0.20261129101112-0123456789ab"}}, build{"v1.2.4-0.20261129101112-0123456789ab", "0123456789ab", "2026-11-29T10:11:12Z"}},
		"go build in a checkout":     {build{}, &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: vcs}, build{"dev", "abc", "2026-11-29T10:00:00Z"}},
		"without build information":  {build{}, nil, build{"dev", "", ""}},
		"image with a version alone": {build{version: "v1.2.3"}, nil, build{"v1.2.3", "", ""}},
	} {
		require.Equal(t, c.want, c.linked.complete(c.info), name)
	}
	require.Contains(t, build{"v1.2.3", "abc", "2026-11-29T10:00:00Z"}.String(), "warmpath v1.2.3, commit abc, 2026-11-29T10:00:00Z, go1")
}

// TestVersionCommand: the command and the flag print the same line.
func TestVersionCommand(t *testing.T) {
	var lines []string
	for _, args := range [][]string{{"version"}, {"--version"}} {
		var out strings.Builder
		root := newRoot()
		root.SetOut(&out)
		root.SetArgs(args)
		require.NoError(t, root.Execute())
		lines = append(lines, out.String())
	}
	require.Equal(t, lines[0], lines[1])
	require.Regexp(t, `^warmpath \S+, commit \S+, .*, go1\S* \S+/\S+\n$`, lines[0])
}
