package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/nixl"
)

// linkOptions are the flags of a node's NIXL and of the measurement of links.
type linkOptions struct {
	library string
	every   time.Duration
	largest string
}

func (o *linkOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.library, "nixl-lib", "", "libnixl_capi.so (default: "+nixl.EnvLibrary+", an installed wheel, the system's)")
	f.DurationVar(&o.every, "link-every", 10*time.Minute, "interval of measurements of the link to another node of the cluster; 0 measures none")
	f.StringVar(&o.largest, "link-bytes", "64MiB", "size of the largest transfer that measures a link; a link takes about four of them, one link at a time")
}

// config returns the configuration of the measurements.
func (o *linkOptions) config() (sidecar.LinkConfig, error) {
	largest, err := parseBytes(o.largest)
	if err != nil {
		return sidecar.LinkConfig{}, fmt.Errorf("cannot use --link-bytes: %w", err)
	}
	return sidecar.LinkConfig{Every: o.every, Largest: int(min(largest, 64<<20))}, nil
}
