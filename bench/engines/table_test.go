//go:build engines

package engines_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// table renders the rows side by side. Times are those of the client.
func table(rows []measured, engines []*engine) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "phase\tpolicy\trequests\terrors\tprompt tokens\thit tokens\thit rate\tTTFT mean\tp50\tp99\t")
	for i := range engines {
		fmt.Fprintf(w, "worker %d\t", i+1)
	}
	fmt.Fprintln(w, "overlap as expected\tover\tunder\tof these in a stall\twall\t")
	for i := range rows {
		m := &rows[i]
		prompt, cached := m.tokens()
		v := m.overlap()
		ttft := m.firstTokens()
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%.1f %%\t%s\t%s\t%s\t", m.phase, m.policy, len(m.outcomes), m.errors(),
			prompt, cached, 100*m.hitRate(), millis(mean(ttft)), millis(percentile(ttft, 50)), millis(percentile(ttft, 99)))
		for _, e := range engines {
			fmt.Fprintf(w, "%.0f %%\t", 100*m.share(e.url))
		}
		fmt.Fprintf(w, "%d of %d (%.1f %%)\t%d\t%d\t%d\t%.0f s\t\n", v.equal, v.compared(),
			100*float64(v.equal)/float64(max(1, v.compared())), v.over, v.under, v.stalled, m.wall.Seconds())
	}
	w.Flush()
	return out.String()
}

// firstTokens returns the sorted times to the first token of the streamed answers: the others have no first token.
func (m *measured) firstTokens() []time.Duration {
	var all []time.Duration
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.err == nil && strings.Contains(o.api, "stream") {
			all = append(all, o.ttft)
		}
	}
	slices.Sort(all)
	return all
}

// share is the part of the requests that one worker answered.
func (m *measured) share(worker string) float64 {
	n := 0
	for i := range m.outcomes {
		if m.outcomes[i].worker == worker {
			n++
		}
	}
	return float64(n) / float64(max(1, len(m.outcomes)))
}

func mean(sorted []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return sum / time.Duration(max(1, len(sorted)))
}

// percentile takes the nearest rank.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}

// mismatches tells the first requests whose overlap was not as expected, to learn from.
func mismatches(m *measured, limit int) string {
	var out strings.Builder
	for i := range m.outcomes {
		o := &m.outcomes[i]
		expected, known := o.expected()
		if o.err == nil && (!known || expected == o.cached) {
			continue
		}
		if limit--; limit < 0 {
			break
		}
		fmt.Fprintf(&out, "request %d (%s) on %s: header %q, prompt %d, expected %d, cached %d, error %v\n",
			i, o.api, o.worker, o.header, o.prompt, expected, o.cached, o.err)
	}
	return out.String()
}

// environment says where and how the numbers were made.
func environment(t *testing.T) string {
	t.Helper()
	ask := func(name string, args ...string) string {
		answer, err := exec.Command(name, args...).Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(answer))
	}
	versions := "import importlib.metadata as m; print(*(f'{p} {m.version(p)}' for p in ('sglang', 'torch', 'openai')), sep=', ')"
	return fmt.Sprintf("date     %s\ncommand  make test-engines\ncommit   %s\ncpu      %s, %d cores\nkernel   %s\nengines  %s\ngo       %s\nload     %s\n",
		time.Now().UTC().Format(time.RFC3339), ask("git", "describe", "--always", "--dirty"),
		ask("sh", "-c", "sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1"), runtime.NumCPU(), ask("uname", "-sr"),
		ask(python(t), "-c", versions), runtime.Version(), ask("cut", "-d ", "-f1-3", "/proc/loadavg"))
}

// keep prints one result and saves it.
func keep(t *testing.T, name, text string) {
	t.Helper()
	t.Logf("%s:\n%s", name, text)
	save(t, name, []byte(text))
}

// save writes a file into $WARMPATH_RESULTS, if there is one.
func save(t *testing.T, name string, text []byte) {
	t.Helper()
	dir := os.Getenv("WARMPATH_RESULTS")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Error(err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Error(err)
	}
}
