package worker

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/modelfile"
)

// askedVocabulary is the vocabulary of a worker that answers /generate so.
func askedVocabulary(t *testing.T, status int, answer, path string) (vocabulary int, asked string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.URL.Path + " " + string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	w, err := newWorker(Spec{URL: server.URL}, nil, new(numbers))
	require.NoError(t, err)
	cfg := Config{Timeout: time.Minute, Files: modelfile.New([]string{os.TempDir()})}
	cfg.setDefaults()
	p := newProber(t.Context(), w, &cfg)
	defer p.client.CloseIdleConnections()
	return p.vocabulary(&Info{ModelPath: path}), asked
}

func TestVocabularyIsAskedFor(t *testing.T) {
	const sglang = `{"error":{"message":"logit_bias must has keys in [0, 1023], got -1."}}`
	n, asked := askedVocabulary(t, 400, sglang, "/nowhere")
	require.Equal(t, 1024, n)
	require.True(t, strings.HasPrefix(asked, "/generate {"), asked)
	for _, tt := range []struct {
		status int
		answer string
	}{
		{200, sglang},
		{400, `{"error":{"message":"no"}}`},
		{400, `{"error":{"message":"logit_bias must has keys in [0, 99999999999], got -1."}}`},
		{400, `{"error":{"message":"logit_bias must has keys in [0, -1], got -1."}}`},
		{401, sglang},
		{500, ""},
	} {
		n, _ = askedVocabulary(t, tt.status, tt.answer, "/nowhere")
		require.Zero(t, n, "%d %s", tt.status, tt.answer)
	}
	n, asked = askedVocabulary(t, 400, sglang, "")
	require.Zero(t, n)
	require.Empty(t, asked, "what is not SGLang is not asked")
}

func TestVocabularyOfAModelsFiles(t *testing.T) {
	dir := t.TempDir()
	for config, want := range map[string]int{
		`{"vocab_size":151936}`:                                    151936,
		`{"vocab_size":7,"text_config":{"vocab_size":262208}}`:     262208,
		`{"thinker_config":{"text_config":{"vocab_size":152064}}}`: 152064,
		`{"text_config":{}}`:                                       0,
		`{"vocab_size":-5}`:                                        0,
		`{"vocab_size":"many"}`:                                    0,
		`{"vocab_size":4294967296}`:                                0,
		`not JSON`:                                                 0,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
		n, _ := askedVocabulary(t, 404, "", dir)
		require.Equal(t, want, n, config)
	}
	for name, file := range map[string]func(name string) error{
		"a file that is not there":         func(string) error { return nil },
		"a pipe":                           func(name string) error { return syscall.Mkfifo(name, 0o600) },
		"a link to a device":               func(name string) error { return os.Symlink("/dev/zero", name) },
		"a folder":                         func(name string) error { return os.Mkdir(name, 0o700) },
		"a file that workers may not name": func(name string) error { return os.Symlink("/etc/passwd", name) },
	} {
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "config.json")))
		require.NoError(t, file(filepath.Join(dir, "config.json")))
		n, _ := askedVocabulary(t, 404, "", dir)
		require.Zero(t, n, name)
	}
}

// FuzzVocabulary: from any answer, a vocabulary is a size that a model can have.
func FuzzVocabulary(f *testing.F) {
	f.Add([]byte(`logit_bias must has keys in [0, 1023], got -1.`))
	f.Add([]byte(`logit_bias [0, 99999999]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := vocabularyOf(body)
		require.GreaterOrEqual(t, n, 0)
		require.LessOrEqual(t, n, maxVocabulary)
		if n > 0 {
			require.Contains(t, string(body), "[0, ")
			require.Equal(t, n, vocabularyOf(fmt.Appendf(nil, "logit_bias must has keys in [0, %d], got -1.", n-1)))
		}
	})
}
