package replay

import (
	"fmt"
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/bench/trace"
)

// NewProgress returns a function for [Config.Progress]: a bar where w is a terminal, and
// elsewhere a line for each tenth of total. A total below one, of a trace of unknown length,
// gives a line for each thousand.
func NewProgress(w io.Writer, total int, title string) func(n int) {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return bar(w, total, title)
	}
	step := 1000
	if total > 0 {
		step = max(1, (total+9)/10)
	}
	return func(n int) {
		if n%step == 0 || n == total {
			fmt.Fprintf(w, "%s: %s of %s requests answered\n", title, trace.Grouped(n), orAll(total))
		}
	}
}

func orAll(total int) string {
	if total < 1 {
		return "all"
	}
	return trace.Grouped(total)
}

func bar(w io.Writer, total int, title string) func(n int) {
	if total < 1 {
		total = -1 // The library's sign for a spinner.
	}
	b := progressbar.NewOptions(total, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(title),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("requests"),
		progressbar.OptionOnCompletion(func() { fmt.Fprintln(w) }))
	return func(n int) { _ = b.Set(n) }
}
