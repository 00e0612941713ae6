package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

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
