package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/admin/top"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

// lintOptions are the flags of warmpath lint.
type lintOptions struct {
	prompts int
	json    bool
	fail    float64
}

// errLint is a file that loses more than --fail-above allows.
var errLint = errors.New("prompts have changing parts before stable ones")

func newLintCommand() *cobra.Command {
	o := &lintOptions{}
	c := &cobra.Command{
		Use:   "lint [FILE]",
		Short: "Find prompts with changing parts before stable ones, which spoil the prefix cache",
		Long: `Lint reads requests (JSON lines of bodies for /v1/chat/completions, /v1/completions or
/generate with text or token ids; OpenAI's batch files; traces with hash_ids) and groups
their prompts by template. Where a part that changes stands before parts that do not, it
prints its position, kind and cost in recomputed tokens, and the remedy.

"7 % -> 74 %" is the share of the prompts' tokens before the first one that changes:
as they are, and with stable parts first. Without FILE it reads standard input.
For live traffic see warmpath serve --lint-sample.`,
		Example: `  warmpath lint requests.jsonl
  warmpath lint --json batch.jsonl | jq .findings
  warmpath lint --fail-above 0.2 prompts.jsonl    # in CI`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	c.Flags().IntVar(&o.prompts, "prompts", 2000, "most prompts to compare; of more, a sample is taken")
	c.Flags().BoolVar(&o.json, "json", false, "write the report as JSON")
	c.Flags().Float64Var(&o.fail, "fail-above", 1, "exit with an error when a template loses more than this share of its tokens")
	return c
}

func (o *lintOptions) run(cmd *cobra.Command, args []string) error {
	in := cmd.InOrStdin()
	if len(args) == 1 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return fmt.Errorf("cannot read prompts: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	return o.check(in, cmd.OutOrStdout(), cmd.ErrOrStderr())
}

// check reports on the prompts of in.
func (o *lintOptions) check(in io.Reader, out, errOut io.Writer) error {
	read, err := lint.Read(in, max(o.prompts, 1))
	if err != nil {
		return err
	}
	if read.Skipped > 0 {
		fmt.Fprintf(errOut, "%d lines without a prompt were skipped\n", read.Skipped)
	}
	if n := len(read.Prompts); n < read.Lines {
		fmt.Fprintf(errOut, "%d of %d prompts are compared (--prompts)\n", n, read.Lines)
	}
	report := lint.Check(read.Prompts)
	if o.json {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(report)
	} else {
		err = report.Table(top.Plain(out))
	}
	if err != nil {
		return err
	}
	for i := range report.Finding {
		if f := &report.Finding[i]; f.Lost > o.fail {
			return fmt.Errorf("%w: %s of the tokens of %d prompts are lost", errLint, lint.Percent(f.Lost), f.Prompts)
		}
	}
	return nil
}
