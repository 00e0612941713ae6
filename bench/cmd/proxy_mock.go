package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/bench/proxy/mock"
)

// newMockCommand returns `proxy mock`.
func newMockCommand() *cobra.Command {
	cfg := mock.Config{}
	c := &cobra.Command{
		Use:   "mock",
		Short: "Workers that cost next to nothing, for measuring routers",
		Long: `Mock serves workers that answer as SGLang does and compute nothing. Its first line on
standard output says where they listen. What they say of their caches is true, in
cached_tokens and, with --events, in KV events.

While they run, GET /bench/pace?ttft=5ms&gap=20ms sets the pace of their answers.`,
		Example: `  bin/bench proxy mock --listen 127.0.0.1:9001 --workers 4 --events`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := mock.New(cfg)
			if err != nil {
				return err
			}
			line, err := json.Marshal(map[string][]string{"workers": w.Addrs()})
			if err != nil {
				return fmt.Errorf("cannot say where the workers listen: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s\n", line)
			return w.Run(cmd.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Listen, "listen", "127.0.0.1:9001", "address of the first worker; the others have the ports after it, with port 0 any")
	f.IntVar(&cfg.Workers, "workers", 4, "workers")
	f.StringVar(&cfg.Model, "model", mock.DefaultModel, "model that they serve")
	f.IntVar(&cfg.PageSize, "page-size", mock.DefaultPage, "tokens a cache page")
	f.IntVar(&cfg.CachePages, "cache-pages", mock.DefaultPages, "pages of each worker's cache")
	f.BoolVar(&cfg.Events, "events", false, "publish KV events")
	f.BoolVar(&cfg.Tokenize, "tokenize", false, "serve /v1/tokenize")
	f.DurationVar(&cfg.TTFT, "ttft", 0, "time until an answer begins")
	f.DurationVar(&cfg.Gap, "gap", 0, "time between two events of a stream")
	return c
}
