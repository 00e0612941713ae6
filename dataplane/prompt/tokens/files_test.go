package tokens_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// hostileFile makes something at a path that is not a model's file.
type hostileFile struct {
	make   func(name string) error
	reason string // of the refusal
}

var hostileFiles = map[string]hostileFile{
	"a pipe":   {func(name string) error { return syscall.Mkfifo(name, 0o600) }, "not a regular file"},
	"a folder": {func(name string) error { return os.Mkdir(name, 0o700) }, "not a regular file"},
	"a sparse file": {func(name string) error {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		return os.Truncate(name, 1<<40)
	}, "too large"},
	"a device":                {func(name string) error { return os.Symlink("/dev/zero", name) }, "--allow-model-path"},
	"a file of the machine's": {func(name string) error { return os.Symlink("/etc/passwd", name) }, "--allow-model-path"},
}

// TestHostileFiles: whatever a worker names, its prompts are left to it, the reason is said, and
// the router ends at once.
func TestHostileFiles(t *testing.T) {
	for what, file := range hostileFiles {
		for name, setting := range map[string]func(dir string) tokens.Settings{
			"tokenizer.json":      func(dir string) tokens.Settings { return tokens.Settings{Version: "0.5.23", Model: dir} },
			"chat_template.jinja": func(dir string) tokens.Settings { return tokens.Settings{Version: "0.5.23", Tokenizer: dir} },
			"elsewhere": func(dir string) tokens.Settings {
				return tokens.Settings{Version: "0.5.23", Model: dir, ChatTemplate: filepath.Join(dir, "elsewhere")}
			},
		} {
			t.Run(what+" as "+name, func(t *testing.T) {
				dir := modelFolder(t, template)
				require.NoError(t, os.RemoveAll(filepath.Join(dir, name)))
				require.NoError(t, file.make(filepath.Join(dir, name)))
				s := newTestModels(t, nil)
				s.models.WorkerUp("w", "m", setting(dir))
				require.Eventually(t, func() bool { return strings.Contains(s.models.Status()[0].Reason, file.reason) }, 5*time.Minute, time.Millisecond,
					"reason %s", file.reason)
				require.Equal(t, "workers", s.models.Status()[0].Chat)
				require.NotContains(t, s.models.Status()[0].Reason, "root:", "no content of the file")
				s.end()
			})
		}
	}
}

// TestFilesOutside: a folder that is not allowed is not read, and both flags are named.
func TestFilesOutside(t *testing.T) {
	s := newTestModels(t, nil)
	for _, settings := range []tokens.Settings{
		{Version: "0.5.23", Model: "/proc/self"},
		{Version: "0.5.23", Tokenizer: "/dev"},
		{Version: "0.5.23", Model: os.TempDir() + "/../etc"},
		{Version: "0.5.23", Model: strings.Repeat("/x", 1<<20)},
	} {
		s.models.WorkerUp("w", "m", settings)
		s.reads(t, "--model-path")
		require.Less(t, len(s.models.Status()[0].Reason), 1000)
	}
	require.Positive(t, s.logs.count("--allow-model-path"))
}
