package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/valyala/fasthttp"
)

// healthAddrs are the default listen addresses of `serve` and `node`.
var healthAddrs = []string{"127.0.0.1:8000", "127.0.0.1:9400"}

func newHealthCommand() *cobra.Command {
	timeout := time.Second
	c := &cobra.Command{
		Use:   "health [URL …]",
		Short: "Check that a router or sidecar on this machine is alive; exits with 0 if it is",
		Long: `Health asks GET /health and exits with 0 when one of the URLs answers 200. It is the health check
of containers, which have no curl. It asks for liveness: a router without workers is alive, and a
restart would not bring it any. GET /ready says whether requests can be served.

Without a URL it asks where WARMPATH_LISTEN says, or else where the router and the sidecar listen by
default.`,
		Example: `  warmpath health
  warmpath health http://127.0.0.1:9400`,
		RunE: func(cmd *cobra.Command, urls []string) error {
			if len(urls) == 0 {
				urls = healthURLs(os.Getenv("WARMPATH_LISTEN"))
			}
			end := time.Now().Add(timeout)
			var failed []error
			for _, url := range urls {
				err := askHealth(url, end)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), "ok", url)
					return nil
				}
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		},
	}
	c.Flags().DurationVar(&timeout, "timeout", timeout, "longest time for all URLs together")
	return c
}

// healthURLs are asked without being told: the address that this process's environment gives
// to listeners, as the loopback where it is every address.
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

func askHealth(url string, end time.Time) error {
	url = strings.TrimRight(url, "/") + "/health"
	status, _, err := fasthttp.GetDeadline(nil, url, end)
	if err != nil {
		return fmt.Errorf("cannot ask %s: %w", url, err)
	}
	if status != fasthttp.StatusOK {
		return fmt.Errorf("cannot call %s healthy: it answers %d", url, status)
	}
	return nil
}
