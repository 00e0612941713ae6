package main

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/secrets"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// errTokenFile is a file with the cluster's token that cannot be used.
var errTokenFile = errors.New("unusable token of the cluster")

// tokenFile is where a user's clusters on loopback have their token.
func tokenFile() (string, error) {
	folder := os.Getenv("XDG_STATE_HOME")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("cannot find a folder for the cluster's token: %w: give --cluster-token", err)
		}
		folder = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(folder, "warmpath", "cluster-token"), nil
}

// readToken reads a token that no other user can know or have written.
func readToken(path string) (string, error) {
	f, err := secrets.OpenOwn(path)
	if errors.Is(err, secrets.ErrShared) {
		return "", fmt.Errorf("%w: %w: it must be a file of this user alone (mode 0600): delete it, and a new one is made", errTokenFile, err)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	data := make([]byte, 4096)
	n, err := f.Read(data)
	token := strings.TrimSpace(string(data[:max(n, 0)]))
	if err != nil || len(token) < cluster.MinSecret {
		return "", fmt.Errorf("%w: %s has less than %d characters: delete it, and a new one is made", errTokenFile, path, cluster.MinSecret)
	}
	return token, nil
}

// makeToken reads a token and makes it first where there is none.
func makeToken(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the cluster's token: %w: give --cluster-token", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cluster-token-") // of mode 0600
	if err != nil {
		return "", fmt.Errorf("cannot make the cluster's token: %w: give --cluster-token", err)
	}
	defer os.Remove(f.Name())
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // it never fails
	_, err = f.WriteString(hex.EncodeToString(secret[:]) + "\n")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Link(f.Name(), path) // whole at once; another process may be faster
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("cannot make the cluster's token: %w: give --cluster-token", err)
	}
	return readToken(path)
}

// localToken gives a cluster on loopback without a token that of this user's file: any user of the
// machine could join it otherwise.
func (o *clusterOptions) localToken(cfg *cluster.Config, log *slog.Logger) error {
	if cfg.Token != "" || cfg.Credentials != "" || cfg.NKey != "" {
		return nil
	}
	if len(cfg.URLs) > 0 {
		if !slices.ContainsFunc(cfg.URLs, func(text string) bool { return !anonymousLoopback(text) }) {
			cfg.TokenOf = tokenOf(cfg.URLs, sidecar.ForeignListener, log)
		}
		return nil
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	if err != nil || !tlsconfig.Loopback(host) || cfg.TLS.CA != "" {
		return nil //nolint:nilerr // Open reports the fault
	}
	path, err := tokenFile()
	if err != nil {
		return err
	}
	if cfg.Token, err = makeToken(path); err != nil {
		return err
	}
	log.Info("processes of this user join the cluster by a file; other users and machines need --cluster-token", "file", path)
	return nil
}

// anonymousLoopback reports whether a URL leads to this machine and names no user.
func anonymousLoopback(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User == nil && tlsconfig.Loopback(u.Hostname())
}

// tokenOf returns a function that reads the token of this user at each connection: the file may be
// made later. Where another user listens it is not shown.
func tokenOf(urls []string, foreign func(url string) (string, bool, error), log *slog.Logger) func() string {
	said := ""
	say := func(why string) string {
		if why != said {
			said = why
			log.Warn("cluster: NATS is not shown this user's token: give --cluster-token", "reason", why)
		}
		return ""
	}
	return func() string {
		path, err := tokenFile()
		if err != nil {
			return ""
		}
		token, err := readToken(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return ""
		case err != nil:
			return say(err.Error())
		}
		for _, text := range urls {
			if user, is, err := foreign(withPort(text)); err != nil {
				return say(err.Error())
			} else if is {
				return say("user " + user + " listens at " + text)
			}
		}
		return token
	}
}

// withPort adds NATS's port to a URL that has none.
func withPort(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	u.Host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222"))
	return u.String()
}

// holder returns whom the token is for; false: it is the cluster's secret, or there is none.
func (o *clusterOptions) holder() (role cluster.Role, name string, ok bool) {
	token := o.cfg.Token
	for _, text := range o.urls {
		if u, err := url.Parse(text); err == nil && u.User != nil {
			token = u.User.Username()
		}
	}
	return cluster.TokenHolder(token)
}

// allow refuses tokens of other roles.
func (o *clusterOptions) allow(command string, allowed cluster.Role) error {
	if role, name, ok := o.holder(); ok && role != allowed {
		return fmt.Errorf("cannot run %s with the token of %s %s: %w: it needs one of a %s, or the cluster's secret", command, role, name, cluster.ErrDenied, allowed)
	}
	return nil
}

// newTokenCommand returns `warmpath token`.
func newTokenCommand() *cobra.Command {
	var secret, prefix string
	nats := false
	c := &cobra.Command{
		Use:   "token ROLE NAME",
		Short: "Make a token for one node, router or operator from the cluster's --cluster-token",
		Long: `Token makes, from the cluster's secret, a token with which one member joins as --cluster-token:

  node NAME      warmpath node --name NAME: it writes the record of this node alone
  router NAME    warmpath serve: its own record, and drain and cordon marks for its operators
  operator NAME  warmpath drain, cordon and their opposites

All roles read the state of the cluster. A token does not reveal the secret, and the same arguments
make the same token: to withdraw one, change the secret. A router with the secret serves the
holders of tokens, so one must run.

The NATS inside a router knows these tokens. With --nats the entry is printed that a NATS of your
own needs in "authorization { users: [ … ] }", and no token.`,
		Example: "  warmpath token node gpu-3\n  warmpath token operator ann\n  warmpath token --nats node gpu-3",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("cannot make a token of %d arguments: want a role (node, router or operator) and a name", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if secret == "" {
				path, err := tokenFile()
				if err == nil {
					secret, err = readToken(path)
				}
				if err != nil {
					return fmt.Errorf("cannot make a token: %w: give the cluster's --cluster-token", err)
				}
			}
			text, err := cluster.RoleToken(secret, cluster.Role(args[0]), args[1])
			if err == nil && nats {
				text, err = cluster.NATSUser(text, cmp.Or(prefix, "warmpath"))
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), strings.TrimSpace(text))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&secret, "cluster-token", os.Getenv("WARMPATH_CLUSTER_TOKEN"),
		"the cluster's secret, of at least 32 characters; also WARMPATH_CLUSTER_TOKEN (default: that of this user's clusters on loopback)")
	f.Lookup("cluster-token").DefValue = ""
	f.BoolVar(&nats, "nats", false, "print the entry for the configuration of a NATS of your own")
	f.StringVar(&prefix, "cluster-prefix", "", "prefix of buckets and subjects, with --nats (default warmpath)")
	return c
}
