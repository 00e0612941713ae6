package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/freeport"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// unrunnable are the words behind the language of a block that this test leaves out.
var unrunnable = map[string]string{
	"engine":   "it needs SGLang",
	"machines": "it needs several machines",
	"install":  "it changes this machine",
	"slow":     "it takes minutes",
}

// background is the word of a block that serves until the end of its page.
const background = "background"

// shellBlock is a fenced block of shell.
type shellBlock struct {
	word, text string
	line       int
}

var anyFence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// shellBlocks returns the shell blocks of a page, and errors for fences that hide commands.
func shellBlocks(page string) (blocks []shellBlock, err error) {
	for _, at := range anyFence.FindAllStringSubmatchIndex(page, -1) {
		language, word, _ := strings.Cut(page[at[2]:at[3]], " ")
		text, line := page[at[4]:at[5]], 1+strings.Count(page[:at[0]], "\n")
		switch {
		case slices.Contains([]string{"bash", "shell", "console", "zsh", "shell-session"}, language):
			return nil, fmt.Errorf("line %d: a block of %s: write sh, and a word behind it where it cannot run", line, language)
		case language != "sh" && regexp.MustCompile(`(?m)^(\$ )?(warmpath|curl|make|python) `).MatchString(text):
			return nil, fmt.Errorf("line %d: a block with commands has the language %q, want sh", line, language)
		case language == "sh" && word != "" && word != background && unrunnable[word] == "":
			return nil, fmt.Errorf("line %d: the word %q is not known", line, word)
		case language == "sh":
			blocks = append(blocks, shellBlock{word, text, line})
		}
	}
	return blocks, nil
}

func TestShellBlocks(t *testing.T) {
	page := "a\n```sh\none\n```\n```sh engine\ntwo\n```\n```yaml\nthree: 3\n```\n```\nfour\n```\n"
	blocks, err := shellBlocks(page)
	require.NoError(t, err)
	require.Equal(t, []shellBlock{{"", "one\n", 2}, {"engine", "two\n", 5}}, blocks)
	for _, page := range []string{"```bash\nx\n```\n", "```sh later\nx\n```\n", "```\nwarmpath up\n```\n", "```text\ncurl x\n```\n"} {
		_, err := shellBlocks(page)
		require.Error(t, err, page)
	}
}

// TestDocumentsRun runs the shell blocks of the README and of docs in their order, each page in a
// folder of its own with simulated workers in place of its machines.
func TestDocumentsRun(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("the documents' commands need " + program)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	ran := 0
	for _, path := range append(pages, "../../README.md") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		blocks, err := shellBlocks(string(text))
		require.NoError(t, err, path)
		runs := slices.DeleteFunc(blocks, func(b shellBlock) bool { return unrunnable[b.word] != "" })
		if ran += len(runs); len(runs) > 0 {
			t.Run(filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				newStage(t, runs).play(runs)
			})
		}
	}
	require.Greater(t, ran, 20, "the pages have hardly any blocks: is the pattern still right?")
}

// stage is where the blocks of a page run: addresses, simulated workers, and a router until a block
// brings its own.
type stage struct {
	t                  *testing.T
	dir                string
	env                []string
	clients, nats      string // addresses in place of the page's
	sidecar, operators string
	workers            map[string]string // URLs of simulated workers by those of the page
	stop               func()            // ends the stage's own router
}

var (
	pageWorker = regexp.MustCompile(`http://gpu\d:30000`)
	pagePair   = regexp.MustCompile(`--(prefill|decode) (http://gpu\d:30000)`)
	ownRouter  = regexp.MustCompile(`(?m)^warmpath (serve|up)\b`)
)

func newStage(t *testing.T, blocks []shellBlock) *stage {
	t.Helper()
	s := &stage{t: t, dir: t.TempDir(), workers: map[string]string{}, stop: func() {}}
	for _, addr := range []*string{&s.clients, &s.nats, &s.sidecar, &s.operators} {
		var release func()
		var err error
		*addr, release, err = freeport.Hold()
		require.NoError(t, err)
		t.Cleanup(release)
	}
	bin := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", os.Args[0])
	require.NoError(t, os.WriteFile(filepath.Join(bin, "warmpath"), []byte(script), 0o700))
	curl, err := exec.LookPath("curl")
	require.NoError(t, err)
	script = fmt.Sprintf("#!/bin/sh\nexec %q --fail \"$@\"\n", curl) // a refused request is a wrong command
	require.NoError(t, os.WriteFile(filepath.Join(bin, "curl"), []byte(script), 0o700))
	s.env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), routerEnv+"=http://"+s.clients, "GORACE=atexit_sleep_ms=0")

	modes := map[string]string{}
	var all strings.Builder
	for _, b := range blocks {
		all.WriteString(b.text)
		if b.word == background {
			for _, pair := range pagePair.FindAllStringSubmatch(b.text, -1) {
				modes[pair[2]] = pair[1]
			}
		}
	}
	for _, url := range pageWorker.FindAllString(all.String(), -1) {
		if s.workers[url] == "" {
			cfg := sim.Config{TimeScale: 100, Log: slog.New(slog.DiscardHandler)}
			cfg.Mode = modes[url]
			w, err := sim.New(cfg)
			require.NoError(t, err)
			s.workers[url] = w.URL()
			runTo(t, w.Run)
		}
	}
	if blocks[0].word != background {
		s.serve()
	}
	return s
}

// serve starts a router with simulated workers for the blocks before the page's own one.
func (s *stage) serve() {
	log := slog.New(slog.DiscardHandler)
	cfg := router.Config{Listen: s.clients, Log: log}
	unhurried(&cfg)
	cl, err := newCluster(clusterSize{workers: 2}, sim.Config{TimeScale: 100, Log: log}, cfg)
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- cl.run(ctx) }()
	s.stop = func() {
		cancel()
		require.NoError(s.t, <-done)
		s.stop = func() {}
	}
	s.t.Cleanup(func() { s.stop() })
	awaitCluster(s.t, cl, 2)
}

// play runs blocks one after the other.
func (s *stage) play(blocks []shellBlock) {
	for _, b := range blocks {
		if b.word == background {
			s.start(b)
			continue
		}
		out, err := s.command(b).CombinedOutput()
		require.NoError(s.t, err, "the block at line %d failed:\n%s\n%s", b.line, b.text, out)
	}
}

// command is a block as a process, with the stage's addresses in place of the page's.
func (s *stage) command(b shellBlock) *exec.Cmd {
	_, port, _ := net.SplitHostPort(s.clients)
	_, operators, _ := net.SplitHostPort(s.operators)
	text := strings.NewReplacer(
		"127.0.0.1:8000", s.clients, "127.0.0.1:4222", s.nats, "127.0.0.1:9400", s.sidecar,
		"--port 8000", "--host 127.0.0.1 --port "+port+" --prometheus-port "+operators,
	).Replace(b.text)
	text = pageWorker.ReplaceAllStringFunc(text, func(url string) string { return s.workers[url] })
	if b.word == background {
		text = strings.Replace(text, "warmpath up", "warmpath up --listen "+s.clients, 1)
		text = strings.Replace(text, "warmpath node", "warmpath node --no-find --listen "+s.sidecar, 1)
		text = "exec " + text
	}
	c := exec.Command("bash", "-euo", "pipefail", "-c", text)
	c.Dir, c.Env = s.dir, s.env
	if b.word == background && ownRouter.MatchString(b.text) && !strings.Contains(b.text, "--listen") && !strings.Contains(b.text, "--port") {
		c.Env = append(slices.Clip(c.Env), envName("listen")+"="+s.clients)
	}
	return c
}

// start runs a block that serves, and waits until it does.
func (s *stage) start(b shellBlock) {
	at := s.sidecar
	if ownRouter.MatchString(b.text) {
		at = s.clients
		s.stop()
	}
	c := s.command(b)
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	require.NoError(s.t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	s.t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	testkit.AwaitThat(s.t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			s.t.Fatalf("the block at line %d ended: %v\n%s\n%s", b.line, err, b.text, &out)
		default:
		}
		resp, err := http.Get("http://" + at + "/ready")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, func() string { return "nothing is ready at " + at + " after: " + b.text })
}

// commandLine finds "warmpath COMMAND …" in what people are told to type and in what systemd starts.
var commandLine = regexp.MustCompile(`(?m)^(?:#\s+|ExecStart=|\s*)(?:docker run .*? |\S*/)?warmpath ([a-z].*)$`)

// Every command that the units, the Dockerfile, the README and the help texts name is there and has the flags that they give it.
func TestDocumentedCommandsExist(t *testing.T) {
	files, err := filepath.Glob("../../systemd/*.service")
	if err != nil || len(files) == 0 {
		t.Fatalf("no systemd units: %v", err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	found := 0
	for _, name := range append(append(files, pages...), "../../Dockerfile.cuda", "../../README.md", "../../ARCHITECTURE.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range commandLine.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "), -1) {
			found++
			checkDocumented(t, filepath.Base(name), match[1])
		}
	}
	if found < 40 {
		t.Errorf("found %d commands: the pattern does not see them any more", found)
	}
}

// checkDocumented parses the flags of one command line. Words after a comment or a gap of two spaces are prose.
func checkDocumented(t *testing.T, file, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, "  ")
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " &")
	args := strings.Fields(strings.NewReplacer("`", "", `"`, "", "'", "", "…", "").Replace(line))
	args, err := adopt(args, io.Discard) // sglang-router's, too
	if err != nil {
		t.Errorf("%s names `warmpath %s`: %v", file, line, err)
		return
	}
	root := newRoot()
	root.InitDefaultCompletionCmd(args...)
	command, rest, err := root.Find(args)
	if err != nil || command == command.Root() {
		t.Errorf("%s names `warmpath %s`, and there is no such command: %v", file, line, err)
		return
	}
	if err := command.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		t.Errorf("%s names `warmpath %s`: %v", file, line, err)
	}
}
