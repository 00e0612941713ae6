package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthAddrs are where `serve` and `node` listen by default.
var healthAddrs = []string{"127.0.0.1:8000", "127.0.0.1:9400"}

func newHealthCommand() *cobra.Command {
	timeout := time.Second
	c := &cobra.Command{
		Use:   "health [URL …]",
		Short: "Ask a router or a sidecar on this machine whether it lives; the exit status tells",
		Long: `Health asks GET /health and exits with 0 when one of the URLs answers 200. It is the health check
of containers, which have no curl. Without a URL it asks where WARMPATH_LISTEN says, or else where
the router and the sidecar listen by default.`,
		Example: `  warmpath health
  warmpath health http://127.0.0.1:9400`,
		RunE: func(cmd *cobra.Command, urls []string) error {
			if len(urls) == 0 {
				urls = healthURLs(os.Getenv("WARMPATH_LISTEN"))
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var failed []error
			for _, url := range urls {
				err := askHealth(ctx, url)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "ok", url)
					return nil
				}
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", timeout, "for all of them together")
	return c
}

// healthURLs are what to ask without being told: the address that this process's environment gives to listeners, as the
// loopback where it is every address.
func healthURLs(listen string) []string {
	addrs := healthAddrs
	if host, port, err := net.SplitHostPort(listen); err == nil {
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		addrs = []string{net.JoinHostPort(host, port)}
	}
	urls := make([]string, len(addrs))
	for i, addr := range addrs {
		urls[i] = "http://" + addr
	}
	return urls
}

func askHealth(ctx context.Context, url string) error {
	url = strings.TrimRight(url, "/") + "/health"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("cannot ask %s: %w", url, err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot ask: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("cannot call %s healthy: it answers %s", url, cmp.Or(res.Status, "nothing"))
	}
	return nil
}
