package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"

	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/router"
)

// serveOptions are the settings of `warmpath serve`.
type serveOptions struct {
	cfg     router.Config
	cluster clusterOptions
	level   string
}

// again reads all settings anew: the command line's flags, and the environment and file as they are
// now.
func again(given *pflag.FlagSet) (serveOptions, error) {
	var o serveOptions
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.flags(f)
	var err error
	given.Visit(func(flag *pflag.Flag) {
		err = errors.Join(err, f.Set(flag.Name, flag.Value.String()))
		if many, isList := flag.Value.(pflag.SliceValue); isList {
			list, _ := f.Lookup(flag.Name).Value.(pflag.SliceValue)
			err = errors.Join(err, list.Replace(many.GetSlice()))
		}
	})
	if err == nil {
		_, err = configure(f, os.Environ())
	}
	if err == nil {
		err = checkZeros(f)
	}
	o.cfg.ConfigFile, o.cfg.Cluster.Joined = f.Lookup(configFlag).Value.String(), o.cluster
	return o, err
}

// reloader applies configuration changes to a router.
type reloader struct {
	given  *pflag.FlagSet // never changed after the start
	router *router.Router
	shared *cluster.Cluster // nil: none
	level  *slog.LevelVar
	mu     sync.Mutex // one reload at a time
}

// reload applies the file's present content. The router logs the result.
func (r *reloader) reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var level *slog.LevelVar
	err := r.router.Reload(func() (router.Config, error) {
		o, err := again(r.given)
		if err == nil {
			_, level, err = newLogger(o.level, o.cfg.Logs.Format)
		}
		o.cfg.Cluster.Conn = r.shared
		return o.cfg, err
	})
	if err == nil {
		r.level.Set(level.Level())
	}
}

// watch reloads after each change of the file until ctx ends. The content read at the start counts
// as no change.
func (r *reloader) watch(ctx context.Context, path string, known []byte) error {
	first := true
	return discover.WatchFile(ctx, path, func(data []byte, err error) {
		if first && err == nil && string(data) == string(known) {
			first = false
			return
		}
		first = false
		r.reload()
	})
}
