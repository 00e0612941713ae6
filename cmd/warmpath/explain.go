package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/top"
)

// explainOptions are the flags of warmpath explain.
type explainOptions struct {
	router          routerOptions
	text, ids, body string
	model, seed     string
	asJSON          bool
}

func newExplainCommand() *cobra.Command {
	o := &explainOptions{}
	c := &cobra.Command{
		Use:   "explain (--text TEXT | --ids LIST | --body FILE)",
		Short: "Explain the choice for a prompt: every worker's overlap, load, trust and cost",
		Long: `Explain asks a running router where a prompt would go, without sending it. It prints
every rank with its overlap, its load, the trust in its state, and
the terms of the predicted time to the first token, in seconds; the winner comes first.

A body is as for /v1/chat/completions (messages), /v1/completions (prompt) or /generate.`,
		Example: `  warmpath explain --text 'Once upon a time'
  warmpath explain --ids 101,2023,2003 --model llama
  warmpath explain --body chat.json --router http://router:8001 --operator-key @operator.key
  echo '{"messages":[{"role":"user","content":"Hello"}]}' | warmpath explain --body -`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f := cmd.Flags(); !f.Changed("text") && !f.Changed("ids") && !f.Changed("body") {
				return errors.New("cannot explain without a prompt: give --text, --ids or --body")
			}
			return o.run(cmd)
		},
	}
	f := c.Flags()
	o.router.flags(f)
	f.StringVar(&o.text, "text", "", "a prompt as text")
	f.StringVar(&o.ids, "ids", "", "a prompt as token ids, with commas or blanks between them")
	f.StringVar(&o.body, "body", "", "file with a request's JSON body; - is standard input")
	f.StringVar(&o.model, "model", "", "model to name with --text or --ids")
	f.StringVar(&o.seed, "seed", "", "seed of ties and samples, as an earlier answer named it (default: drawn)")
	f.BoolVar(&o.asJSON, "json", false, "print the router's whole answer")
	c.MarkFlagsMutuallyExclusive("text", "ids", "body")
	return c
}

func (o *explainOptions) run(cmd *cobra.Command) error {
	body, err := o.request(cmd.InOrStdin())
	if err != nil {
		return err
	}
	answer, err := o.ask(body)
	if err != nil {
		return err
	}
	if o.asJSON {
		_, err := cmd.OutOrStdout().Write(answer)
		return err
	}
	var e admin.Explained
	if err := json.Unmarshal(answer, &e); err != nil {
		return fmt.Errorf("cannot read the answer of %s: %w", o.router.base(), err)
	}
	return writeExplained(top.Plain(cmd.OutOrStdout()), &e)
}

// request makes the body to explain.
func (o *explainOptions) request(in io.Reader) ([]byte, error) {
	body := map[string]any{}
	switch {
	case o.body == "-":
		return io.ReadAll(in)
	case o.body != "":
		return os.ReadFile(o.body)
	case o.ids != "":
		list := strings.FieldsFunc(strings.Trim(strings.TrimSpace(o.ids), "[]"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\t' })
		ids := make([]json.Number, len(list))
		for i, id := range list {
			ids[i] = json.Number(id)
		}
		body["input_ids"] = ids
	default:
		body["text"] = o.text
	}
	if o.model != "" {
		body["model"] = o.model
	}
	out, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("cannot use --ids %q: want numbers with commas between them", o.ids)
	}
	return out, nil
}

// explainTimeout bounds the question: a worker may be asked for token ids.
const explainTimeout = 30 * time.Second

func (o *explainOptions) ask(body []byte) ([]byte, error) {
	path := "/explain"
	if o.seed != "" {
		path += "?seed=" + url.QueryEscape(o.seed)
	}
	answer, err := o.router.ask(path, body, explainTimeout)
	if err != nil {
		return nil, fmt.Errorf("cannot explain: %w", err)
	}
	return answer, nil
}

// writeExplained prints the ranks, the winner first and the rest by cost.
func writeExplained(out io.Writer, e *admin.Explained) error {
	exact := "estimated"
	if e.Prompt.Exact {
		exact = "exact"
	}
	fmt.Fprintf(out, "prompt of %d tokens (%s)   policy %s   seed %s\n", e.Prompt.Tokens, exact, e.Policy, e.Seed)
	switch {
	case e.Error != "":
		fmt.Fprintf(out, "goes nowhere: %s\n\n", e.Error)
	case e.Pair != nil && e.Pair.Chosen:
		fmt.Fprintf(out, "goes to %s: %s\nand to %s: %s\n\n", e.Winner, e.Why, e.Pair.Decode, e.Pair.Why)
	default:
		fmt.Fprintf(out, "goes to %s: %s\n\n", e.Winner, e.Why)
	}
	ranks := orderExplained(e.Ranks)
	for i := range ranks {
		writeExplainedRank(out, &ranks[i])
	}
	writeExplainedPair(out, e.Pair)
	writeGPUs(out, e, ranks)
	for i := range ranks {
		r := &ranks[i]
		if r.Excluded != "" {
			fmt.Fprintf(out, "%s is no candidate: it %s\n", r.ID, r.Excluded)
		}
		if a := r.Trust.Events; a != nil {
			fmt.Fprintf(out, "%s's events are set aside: %s\n", r.ID, a.Why)
		}
	}
	return nil
}

// writeExplainedRank prints a rank with its state and the cost of the prompt there. Terms that are
// zero are left out.
func writeExplainedRank(out io.Writer, r *admin.ExplainedRank) {
	mark := "  "
	if r.Winner {
		mark = "->"
	}
	fmt.Fprintf(out, "%s %s  %s, events %s\n", mark, r.ID, explainedState(r), r.Events)
	has := []string{
		fmt.Sprintf("%d in flight", r.Load.InFlight), fmt.Sprintf("backlog %d", r.Load.PendingTokens), "speed unknown",
	}
	if r.Load.PrefillPerSecond > 0 {
		has[2] = fmt.Sprintf("%.0f tokens/s", r.Load.PrefillPerSecond)
	}
	o, c := r.Overlap, r.Cost
	if o == nil || c == nil {
		writeWrapped(out, has)
		return
	}
	cached := fmt.Sprintf("cached %d", o.GPU+o.Host)
	if o.Host > 0 {
		cached += fmt.Sprintf(" (%d in host memory)", o.Host)
	}
	if o.Predicted > o.GPU+o.Host {
		cached += fmt.Sprintf(", %d with the prompts under way", o.Predicted)
	}
	writeWrapped(out, append([]string{cached, fmt.Sprintf("credit %.2f", r.Trust.Credit)}, has...))
	terms := []string{fmt.Sprintf("TTFT %.4f s:", c.TTFT), fmt.Sprintf("compute %.4f", c.Compute)}
	for _, term := range []struct {
		name    string
		seconds float64
	}{
		{"queue", c.Queue},
		{"tier", c.Tier},
		{"pool", c.Pool},
		{"health", c.Health},
		{"later", c.Later},
		{"streams", c.Streams},
		{"sessions", c.Sessions},
	} {
		if term.seconds != 0 {
			terms = append(terms, fmt.Sprintf("%s %.4f", term.name, term.seconds))
		}
	}
	if c.Score != nil {
		terms = append(terms, fmt.Sprintf("score %.4g", *c.Score))
	}
	writeWrapped(out, terms)
}

// explainWidth is that of a terminal.
const explainWidth = 80

// writeWrapped prints phrases below a rank, none of them broken.
func writeWrapped(out io.Writer, phrases []string) {
	const indent, gap = "     ", "  "
	line := indent
	for _, p := range phrases {
		switch {
		case line == indent:
		case len(line)+len(gap)+len(p) > explainWidth:
			fmt.Fprintln(out, line)
			line = indent
		default:
			line += gap
		}
		line += p
	}
	fmt.Fprintln(out, line)
}
