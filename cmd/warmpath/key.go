package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

// newKeyCommand makes keys for --client-keys.
func newKeyCommand() *cobra.Command {
	c := &cobra.Command{Use: "key", Short: "Make an API key for a client of the router"}
	c.AddCommand(&cobra.Command{
		Use:   "new NAME [LIMIT=VALUE …]",
		Short: "Print a new key, and its line for the file of --client-keys",
		Long: `New makes a random key. It writes the key to standard error, for the client, and to
standard output the line for the file that --client-keys names, which holds its SHA-256 only. For a
key that exists, "printf %s KEY | sha256sum" prints the hash. Two hashes on one line, HASH,HASH,
let a client change its key. The routers of a cluster keep each limit together.

Limits, each of which may be left out:
  models=NAME,…           models that it may use, an adapter as base:adapter
  requests-per-minute=N   a minute's worth at once, then evenly
  tokens-per-minute=N     of prompts, known or estimated before they are sent, and of answers, when
                          they have ended
  concurrency=N           requests under way at once
  priority=N              highest "priority" in a body; without this limit the field is ignored
  deadline=DURATION       longest X-Warmpath-Deadline, such as 30s
  cache-salt=own          with --client-cache-salt: the client names its cache salts itself, or none`,
		Example: `  warmpath key new alice >> client-keys
  warmpath key new batch models=llama,qwen tokens-per-minute=1000000 concurrency=32 >> client-keys
  warmpath serve --client-keys client-keys --worker http://gpu1:30000`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fmt.Errorf("a key needs the name of its client, as in %s alice", c.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			secret, line, err := clientkey.Line(args[0], args[1:])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "key of %s, which is shown only here: %s\n", args[0], secret)
			fmt.Fprintln(cmd.OutOrStdout(), line)
			return nil
		},
	})
	return c
}
