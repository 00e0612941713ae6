package main

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// build says which program this is. The Makefile sets all of it; `go install` and a plain
// `go build` leave it to the build information that Go puts into a binary.
type build struct{ version, commit, date string }

// pseudoVersion is Go's name of a commit without a tag: it ends with the time and the commit.
var pseudoVersion = regexp.MustCompile(`[.-](\d{14})-([0-9a-f]{12})(?:\+.*)?$`)

// complete fills the parts that the linker did not set from Go's build information.
func (b build) complete(info *debug.BuildInfo) build {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b.commit, b.date = cmp.Or(b.commit, settings["vcs.revision"]), cmp.Or(b.date, settings["vcs.time"])
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		b.version = cmp.Or(b.version, info.Main.Version)
	}
	if m := pseudoVersion.FindStringSubmatch(b.version); m != nil {
		b.commit = cmp.Or(b.commit, m[2])
		if at, err := time.Parse("20060102150405", m[1]); err == nil {
			b.date = cmp.Or(b.date, at.Format(time.RFC3339))
		}
	}
	b.version = cmp.Or(b.version, "dev")
	return b
}

// String is the line of `warmpath version`.
func (b build) String() string {
	return fmt.Sprintf("warmpath %s, commit %s, %s, %s %s/%s",
		b.version, cmp.Or(b.commit, "unknown"), cmp.Or(b.date, "date unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// thisBuild is the running program's.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return build{version, commit, date}.complete(info)
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and its date",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), thisBuild())
			return err
		},
	}
}
