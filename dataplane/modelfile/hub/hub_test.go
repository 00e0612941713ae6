package hub_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // git's
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/modelfile/hub"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

const (
	first  = "0123456789abcdef0123456789abcdef01234567" // commits
	second = "76543210fedcba9876543210fedcba9876543210"
)

var qwen, _ = modelfile.ParseHubName("Qwen/Qwen3-8B")

// fakeHub answers as the hub does: a large file is at another host.
type fakeHub struct {
	mu     sync.Mutex
	commit string                                        // of main
	files  map[string]string                             // of Qwen/Qwen3-8B
	large  string                                        // the name of a file in LFS
	before func(http.ResponseWriter, *http.Request) bool // answers in place of the hub, where true

	hub, cdn *httptest.Server
	asked    []string // the hub's paths, with the token
}

func newFakeHub(t *testing.T) *fakeHub {
	t.Helper()
	f := &fakeHub{commit: first, large: "tokenizer.json", files: map[string]string{
		"tokenizer.json": `{"large":1}`, "tokenizer_config.json": `{"chat_template":"x"}`, "config.json": `{}`,
	}}
	f.hub = httptest.NewServer(f)
	f.cdn = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.Header.Get("Accept-Encoding") != "identity" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		_, _ = io.WriteString(w, f.files[filepath.Base(r.URL.Path)])
	}))
	t.Cleanup(func() { f.hub.Close(); f.cdn.Close() })
	return f
}

func (f *fakeHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(r.Header.Get("Authorization")+" "+r.URL.EscapedPath()))
	if f.before != nil && f.before(w, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/Qwen/Qwen3-8B/resolve/")
	if !ok {
		refuse(w, http.StatusUnauthorized, "RepoNotFound")
		return
	}
	revision, file := rest[:strings.LastIndex(rest, "/")], rest[strings.LastIndex(rest, "/")+1:]
	commit := map[string]string{"main": f.commit, "refs/pr/1": second, first: first, second: second}[revision]
	text, found := f.files[file]
	if commit == "" {
		refuse(w, http.StatusNotFound, "RevisionNotFound")
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	switch {
	case !found:
		refuse(w, http.StatusNotFound, "EntryNotFound")
	case file == f.large:
		w.Header().Set("X-Linked-Etag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))))
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(text)))
		w.Header().Set("ETag", `"that of the redirect"`)
		http.Redirect(w, r, f.cdn.URL+"/"+file+"?signature=secret", http.StatusFound)
	default:
		w.Header().Set("ETag", `"`+gitSum(text)+`"`)
		_, _ = io.WriteString(w, text)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("X-Error-Code", code)
	w.WriteHeader(status)
}

func gitSum(text string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(text), text))) //nolint:gosec // git's
}

// requests returns what the hub was asked since the last call.
func (f *fakeHub) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// client returns a hub with a cache of its own.
func (f *fakeHub) client(t *testing.T, change func(*hub.Config)) (_ *hub.Hub, cache string, logs *testkit.Text) {
	t.Helper()
	cache, logs = filepath.Join(t.TempDir(), "hub"), &testkit.Text{}
	cfg := hub.Config{Cache: cache, Endpoint: f.hub.URL + "/", Token: "hf_secret\n", Log: logs.Log()}
	if change != nil {
		change(&cfg)
	}
	h, err := hub.New(cfg)
	require.NoError(t, err)
	return h, cache, logs
}

// find looks once for a model at a hub that is not unavailable.
func find(t *testing.T, h *hub.Hub, name modelfile.HubName) (folder string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var why error
	folder, err = h.Folder(ctx, name, func(err error) { why = err; stop() })
	require.NotErrorIs(t, why, hub.ErrUnavailable)
	if why != nil {
		require.ErrorIs(t, err, context.Canceled)
		return folder, why
	}
	return folder, err
}

// tree lists the files below a folder: the content, or the target of a link.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		require.NoError(t, err)
		name, _ := filepath.Rel(folder, path)
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			require.NoError(t, err)
			all[name] = "-> " + target
			return nil
		}
		text, err := os.ReadFile(path)
		all[name] = string(text)
		return err
	})
	require.NoError(t, err)
	return all
}

// TestFetch: into the layout of huggingface_hub, once, with the token for the hub alone, and all of
// one commit.
func TestFetch(t *testing.T) {
	f := newFakeHub(t)
	h, cache, logs := f.client(t, nil)
	folder, err := find(t, h, qwen)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, "models--Qwen--Qwen3-8B", "snapshots", first), folder)
	large, config, architecture := fmt.Sprintf("%x", sha256.Sum256([]byte(`{"large":1}`))), gitSum(`{"chat_template":"x"}`), gitSum(`{}`)
	at := "models--Qwen--Qwen3-8B/"
	want := map[string]string{
		at + "refs/main": first,
		at + "snapshots/" + first + "/tokenizer.json":        "-> ../../blobs/" + large,
		at + "snapshots/" + first + "/tokenizer_config.json": "-> ../../blobs/" + config,
		at + "snapshots/" + first + "/config.json":           "-> ../../blobs/" + architecture,
		at + "blobs/" + large:                                `{"large":1}`,
		at + "blobs/" + config:                               `{"chat_template":"x"}`,
		at + "blobs/" + architecture:                         `{}`,
	}
	for _, missing := range []string{"special_tokens_map.json", "chat_template.jinja", "chat_template.json"} {
		want[at+".no_exist/"+first+"/"+missing] = ""
	}
	require.Equal(t, want, tree(t, cache))
	text, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	require.NoError(t, err)
	require.Equal(t, `{"large":1}`, string(text))
	asked := f.requests()
	require.Len(t, asked, 6)
	require.Equal(t, "Bearer hf_secret /Qwen/Qwen3-8B/resolve/main/tokenizer.json", asked[0])
	for _, path := range asked[1:] {
		require.Contains(t, path, "/resolve/"+first+"/", "of the same commit")
	}
	require.Contains(t, logs.String(), "bytes=")
	require.NotContains(t, logs.String(), "hf_secret")

	f.commit, f.files["config.json"] = second, `{"newer":1}`
	for range 2 { // from the cache, which the hub's changes do not reach
		again, err := find(t, h, qwen)
		require.NoError(t, err)
		require.Equal(t, folder, again)
	}
	require.Empty(t, f.requests(), "nothing is asked of the network")

	// Another revision shares what is equal.
	pull := modelfile.HubName{ID: "Qwen/Qwen3-8B", Revision: "refs/pr/1"}
	folder, err = find(t, h, pull)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, at, "snapshots", second), folder)
	now := tree(t, cache)
	require.Equal(t, second, now[at+"refs/refs/pr/1"])
	require.Equal(t, first, now[at+"refs/main"])
	require.Equal(t, "-> ../../blobs/"+large, now[at+"snapshots/"+second+"/tokenizer.json"])
	require.Equal(t, "Bearer hf_secret /Qwen/Qwen3-8B/resolve/refs%2Fpr%2F1/tokenizer.json", f.requests()[0])

	// And a commit is found by itself.
	folder, err = find(t, h, modelfile.HubName{ID: "Qwen/Qwen3-8B", Revision: second})
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, at, "snapshots", second), folder)
	require.Empty(t, f.requests())
}

// TestFilesOfOtherTools: a download by huggingface_hub is used as it is.
func TestFilesOfOtherTools(t *testing.T) {
	f := newFakeHub(t)
	h, cache, logs := f.client(t, nil)
	folder := filepath.Join(cache, "models--Qwen--Qwen3-8B")
	snapshot := filepath.Join(folder, "snapshots", second)
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write(filepath.Join(folder, "refs", "main"), second+"\n")
	write(filepath.Join(snapshot, "tokenizer.json"), "theirs")
	write(filepath.Join(snapshot, "config.json"), "theirs")
	write(filepath.Join(snapshot, "tokenizer_config.json"), "theirs")
	found, err := find(t, h, qwen)
	require.NoError(t, err)
	require.Equal(t, snapshot, found)
	require.Empty(t, f.requests())

	// One is missing and the hub refuses: the others are used.
	require.NoError(t, os.Remove(filepath.Join(snapshot, "config.json")))
	f.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	found, err = find(t, h, qwen)
	require.NoError(t, err)
	require.Equal(t, snapshot, found)
	require.Contains(t, logs.String(), "not all files")

	// It is fetched when the hub answers, and alone: of the commit that the cache has, though the
	// hub has a newer one, and the ref stays where the workers' weights are.
	f.before = nil
	f.requests()
	found, err = find(t, h, qwen)
	require.NoError(t, err)
	require.Equal(t, snapshot, found)
	text, err := os.ReadFile(filepath.Join(snapshot, "config.json"))
	require.NoError(t, err)
	require.Equal(t, "{}", string(text))
	asked := f.requests()
	require.Len(t, asked, 4, "what is there stays")
	for _, path := range asked {
		require.Contains(t, path, "/resolve/"+second+"/")
	}
	require.Equal(t, second+"\n", tree(t, folder)["refs/main"])
	require.Equal(t, "theirs", tree(t, folder)["snapshots/"+second+"/tokenizer.json"])
}

// TestRedirects: the token is for the hub's own host and port, and nothing less safe is followed.
func TestRedirects(t *testing.T) {
	f := newFakeHub(t)
	renamed := modelfile.HubName{ID: "Old/Name", Revision: "main"}
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		rest, old := strings.CutPrefix(r.URL.Path, "/Old/Name/")
		if old {
			http.Redirect(w, r, "/Qwen/Qwen3-8B/"+rest, http.StatusTemporaryRedirect)
		}
		return old
	}
	h, cache, _ := f.client(t, nil)
	folder, err := find(t, h, renamed)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, "models--Old--Name", "snapshots", first), folder)
	for _, path := range f.requests() {
		require.Contains(t, path, "Bearer hf_secret ", "at its own host")
	}
	for what, to := range map[string]string{
		"in a circle": "/Qwen/Qwen3-8B/resolve/main/tokenizer.json", "to a file": "file:///etc/passwd", "to nothing": "http:///x", "to no URL": "http://%zz",
	} {
		f.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return true
		}
		h, cache, _ := f.client(t, nil)
		_, err := find(t, h, qwen)
		require.ErrorIs(t, err, hub.ErrRefused, what)
		require.Empty(t, tree(t, cache), what)
		require.LessOrEqual(t, len(f.requests()), 6, what)
	}

	// From https to http: whoever listens would have the content replaced.
	var asked []string
	h, err = hub.New(hub.Config{Cache: t.TempDir(), Endpoint: "https://hub.test", Token: "hf_secret", Transport: trips(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.String())
		return &http.Response{StatusCode: http.StatusFound, Request: r, Body: http.NoBody, Header: http.Header{"Location": {"http://hub.test/x"}}}, nil
	})})
	require.NoError(t, err)
	_, err = find(t, h, qwen)
	require.ErrorIs(t, err, hub.ErrRefused)
	require.Len(t, asked, 1)

	// From http to https, as a mirror does below a path: it is the hub itself.
	h, err = hub.New(hub.Config{Cache: t.TempDir(), Endpoint: "http://hub.test/hf/", Token: "hf_secret", Transport: trips(func(r *http.Request) (*http.Response, error) {
		require.True(t, strings.HasPrefix(r.URL.Path, "/hf/Qwen/Qwen3-8B/resolve/"), r.URL)
		require.Equal(t, "Bearer hf_secret", r.Header.Get("Authorization"))
		answer := &http.Response{StatusCode: http.StatusMovedPermanently, Request: r, Body: http.NoBody, Header: http.Header{"Location": {"https://" + r.URL.Host + r.URL.Path}}}
		if r.URL.Scheme == "https" {
			answer.StatusCode, answer.Header = http.StatusOK, http.Header{"X-Repo-Commit": {first}}
		}
		return answer, nil
	})})
	require.NoError(t, err)
	_, err = find(t, h, qwen)
	require.NoError(t, err)
}

// TestRefusals: each says what to do, and leaves nothing behind that looks like a model.
func TestRefusals(t *testing.T) {
	status := func(status int, code string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { refuse(w, status, code); return true }
	}
	headers := func(text string, pairs ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			for i := 0; i < len(pairs); i += 2 {
				w.Header().Set(pairs[i], pairs[i+1])
			}
			_, _ = io.WriteString(w, text)
			return true
		}
	}
	for what, c := range map[string]struct {
		name    string
		noToken bool
		before  func(http.ResponseWriter, *http.Request) bool
		want    []string
	}{
		"gated":                 {noToken: true, before: status(401, "GatedRepo"), want: []string{"accept its licence at http://127.0.0.1:", "/Qwen/Qwen3-8B", "HF_TOKEN"}},
		"gated for this user":   {before: status(403, "GatedRepo"), want: []string{"not open to the user", "licence"}},
		"no such model":         {name: "Qwen/Qwen3-9B", want: []string{"no folder Qwen/Qwen3-9B here", "no model of that name", "HF_TOKEN"}},
		"no such revision":      {name: "Qwen/Qwen3-8B@v9", want: []string{"no revision v9"}},
		"a bad token":           {before: status(401, ""), want: []string{"HF_TOKEN"}},
		"a mirror without it":   {before: status(404, ""), want: []string{"has no tokenizer.json, or does not exist"}},
		"no tokenizer":          {before: status(404, "EntryNotFound"), want: []string{"has no tokenizer.json", "only its workers"}},
		"a teapot":              {before: status(418, ""), want: []string{"418"}},
		"no hub":                {before: headers("<html>"), want: []string{"HF_ENDPOINT"}},
		"a commit of a path":    {before: headers("x", "X-Repo-Commit", "../../../../etc"), want: []string{"HF_ENDPOINT"}},
		"another commit":        {name: "Qwen/Qwen3-8B@" + second, before: headers("x", "X-Repo-Commit", first), want: []string{second, first}},
		"a large file":          {before: headers("x", "X-Repo-Commit", first, "X-Linked-Size", "99999999999"), want: []string{"too large", "99999999999"}},
		"a file that is larger": {before: headers(strings.Repeat("x", modelfile.MaxTokenizer+1), "X-Repo-Commit", first, "Trailer", "X"), want: []string{"too large"}},
	} {
		t.Run(what, func(t *testing.T) {
			f := newFakeHub(t)
			f.before = c.before
			h, cache, _ := f.client(t, func(cfg *hub.Config) {
				if c.noToken {
					cfg.Token = ""
				}
			})
			name := qwen
			if c.name != "" {
				name, _ = modelfile.ParseHubName(c.name)
			}
			_, err := find(t, h, name)
			require.ErrorIs(t, err, hub.ErrRefused)
			for _, text := range c.want {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "hf_secret")
			require.Empty(t, tree(t, cache))
			if what != "a file that is larger" { // than it says
				require.NoDirExists(t, cache, "huggingface_hub would call it corrupt")
			}
		})
	}
}

// TestAnotherCommitOnTheWay: files of two commits are no model.
func TestAnotherCommitOnTheWay(t *testing.T) {
	f := newFakeHub(t)
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/config.json") {
			w.Header().Set("X-Repo-Commit", second)
			_, _ = io.WriteString(w, "{}")
			return true
		}
		return false
	}
	h, cache, _ := f.client(t, nil)
	_, err := find(t, h, qwen)
	require.ErrorIs(t, err, hub.ErrRefused)
	for name := range tree(t, cache) {
		require.NotContains(t, name, "/tokenizer.json")
		require.NotContains(t, name, "refs/")
	}
}

// trips is a transport.
type trips func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f trips) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUnavailable: whatever may pass is tried again, ever more slowly, until it has passed.
func TestUnavailable(t *testing.T) {
	const text = `{"whole":1}`
	answer := func(r *http.Request, status int, body io.Reader) *http.Response {
		return &http.Response{
			StatusCode: status, Request: r, Body: io.NopCloser(body), ContentLength: -1,
			Header: http.Header{"X-Repo-Commit": {first}, "Etag": {`"` + gitSum(text) + `"`}},
		}
	}
	faults := []struct {
		want string
		trip trips
	}{
		{"no such host", func(*http.Request) (*http.Response, error) { return nil, errors.New("no such host") }},
		{"503", func(r *http.Request) (*http.Response, error) { return answer(r, 503, strings.NewReader("")), nil }},
		{"429", func(r *http.Request) (*http.Response, error) { return answer(r, 429, strings.NewReader("")), nil }},
		{"unexpected EOF", func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, io.MultiReader(strings.NewReader(text[:5]), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
		}},
		{"checksum", func(r *http.Request) (*http.Response, error) { return answer(r, 200, strings.NewReader(text[:5])), nil }},
		{"checksum", func(r *http.Request) (*http.Response, error) { return answer(r, 200, strings.NewReader(text+" ")), nil }},
		{"5 bytes came of 11", func(r *http.Request) (*http.Response, error) {
			resp := answer(r, 200, strings.NewReader(text[:5]))
			resp.Header.Set("X-Linked-Size", "11")
			return resp, nil
		}},
		{"deadline", func(r *http.Request) (*http.Response, error) { // the content stops
			return answer(r, 200, io.MultiReader(strings.NewReader(text[:5]), hanging{r.Context()})), nil
		}},
		{"deadline", func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }},
	}
	bubbletest.Test(t, func(t *testing.T) {
		cache, attempts := t.TempDir(), 0
		h, err := hub.New(hub.Config{Cache: cache, Endpoint: "https://hub.test", Transport: trips(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/tokenizer.json") {
				attempts++
			}
			if attempts <= len(faults) {
				return faults[attempts-1].trip(r)
			}
			return answer(r, 200, strings.NewReader(text)), nil
		})})
		require.NoError(t, err)
		var said []string
		began := time.Now()
		folder, err := h.Folder(t.Context(), qwen, func(err error) {
			require.ErrorIs(t, err, hub.ErrUnavailable)
			require.Empty(t, tree(t, cache), "nothing of it stays: %v", err)
			said = append(said, err.Error())
		})
		require.NoError(t, err)
		require.Len(t, said, len(faults))
		for i, fault := range faults {
			require.Contains(t, said[i], fault.want)
		}
		// 1, 2, 4 … 32 s, then a minute each, and 5 minutes for each file that hangs.
		require.Equal(t, 63*time.Second+3*time.Minute+2*5*time.Minute, time.Since(began))
		content, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
		require.NoError(t, err)
		require.Equal(t, text, string(content))

		// The end of the router ends it at once.
		ctx, stop := context.WithCancel(t.Context())
		attempts = 0
		_, err = h.Folder(ctx, modelfile.HubName{ID: "a/b", Revision: "main"}, func(error) { stop() })
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestRefusalThatIsMended: by a token in its file, or a model copied into the cache. Neither needs a
// restart.
func TestRefusalThatIsMended(t *testing.T) {
	const text = `{"whole":1}`
	bubbletest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		h, err := hub.New(hub.Config{Cache: t.TempDir(), Endpoint: "https://hub.test", TokenFile: file, Transport: trips(func(r *http.Request) (*http.Response, error) {
			answer := &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(text)), ContentLength: -1, Header: http.Header{"X-Repo-Commit": {first}}}
			if r.Header.Get("Authorization") == "" {
				answer.StatusCode, answer.Header = 401, http.Header{"X-Error-Code": {"GatedRepo"}}
			}
			return answer, nil
		})})
		require.NoError(t, err)
		refused, began := 0, time.Now()
		_, err = h.Folder(t.Context(), qwen, func(err error) {
			require.ErrorIs(t, err, hub.ErrRefused)
			if refused++; refused == 3 {
				require.NoError(t, os.WriteFile(file, []byte("hf_new\n"), 0o600))
			}
		})
		require.NoError(t, err)
		require.Equal(t, 3, refused)
		require.Equal(t, 3*time.Minute, time.Since(began))

		cache := t.TempDir()
		h, err = hub.New(hub.Config{Cache: cache, Offline: true})
		require.NoError(t, err)
		name := modelfile.HubName{ID: "Qwen/Qwen3-8B", Revision: first}
		_, err = h.Folder(t.Context(), name, func(err error) {
			require.ErrorIs(t, err, hub.ErrOffline)
			folder := name.Snapshot(cache, first)
			require.NoError(t, os.MkdirAll(folder, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(text), 0o600))
		})
		require.NoError(t, err)
	})
}

// TestCacheThatCannotBeWritten: the reason has the same text each time, so that it is logged once.
func TestCacheThatCannotBeWritten(t *testing.T) {
	h, cache, _ := newFakeHub(t).client(t, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(qwen.Folder(cache), "refs", "main", "folder"), 0o700))
	_, once := find(t, h, qwen)
	_, again := find(t, h, qwen)
	require.ErrorContains(t, once, "refs/main")
	require.ErrorContains(t, once, "set HF_HUB_CACHE")
	require.Equal(t, once.Error(), again.Error())
}

// hanging is content that does not come.
type hanging struct{ ctx context.Context } //nolint:containedctx // of one answer

// Read implements io.Reader.
func (h hanging) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }

// TestCutTransfer: a connection that ends too early gives no file.
func TestCutTransfer(t *testing.T) {
	f := newFakeHub(t)
	f.large = ""
	f.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Repo-Commit", first)
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		return true
	}
	h, cache, _ := f.client(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	_, err := h.Folder(ctx, qwen, func(err error) {
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		stop()
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, tree(t, cache))
}

// TestOffline: the hub is not asked, and the remedy is said.
func TestOffline(t *testing.T) {
	f := newFakeHub(t)
	h, cache, _ := f.client(t, func(cfg *hub.Config) { cfg.Offline = true })
	_, err := find(t, h, modelfile.HubName{ID: "Qwen/Qwen3-8B", Revision: "v1"})
	require.ErrorIs(t, err, hub.ErrOffline)
	require.ErrorContains(t, err, "hf download Qwen/Qwen3-8B tokenizer.json ")
	require.ErrorContains(t, err, "--revision v1")
	require.ErrorContains(t, err, cache)
	require.Empty(t, f.requests())
	require.Empty(t, tree(t, cache))
}

// TestTwoAtOnce: two routers that start together with one cache.
func TestTwoAtOnce(t *testing.T) {
	f := newFakeHub(t)
	f.large = ""
	cache := t.TempDir()
	var both sync.WaitGroup
	both.Add(2)
	folders, errs := make([]string, 2), make([]error, 2)
	var routers sync.WaitGroup
	for i := range 2 {
		arrived := sync.OnceFunc(both.Done)
		h, err := hub.New(hub.Config{Cache: cache, Endpoint: f.hub.URL, Transport: trips(func(r *http.Request) (*http.Response, error) {
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err == nil && resp.StatusCode == http.StatusOK {
				arrived()
				both.Wait() // neither has saved anything yet
			}
			return resp, err
		})})
		require.NoError(t, err)
		routers.Go(func() {
			folders[i], errs[i] = find(t, h, qwen)
		})
	}
	routers.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, folders[0], folders[1])
	all := tree(t, cache)
	require.Len(t, all, 1+3+3+3, "a ref, links, blobs and notes of what is not there")
	for name := range all {
		require.NotContains(t, name, ".incomplete")
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:forcetypeassert // it is
}

// TestCacheOfOthers: nothing is written through links that lead out of a model's folder, nor where
// nothing can be written.
func TestCacheOfOthers(t *testing.T) {
	f := newFakeHub(t)
	for _, folder := range []string{"blobs", "snapshots", "refs", ".no_exist"} {
		h, cache, _ := f.client(t, nil)
		outside := t.TempDir()
		require.NoError(t, os.MkdirAll(qwen.Folder(cache), 0o700))
		require.NoError(t, os.Symlink(outside, filepath.Join(qwen.Folder(cache), folder)))
		_, err := find(t, h, qwen)
		require.ErrorContains(t, err, "HF_HUB_CACHE", folder)
		require.Empty(t, tree(t, outside), folder)
	}
	h, _, _ := f.client(t, func(cfg *hub.Config) {
		cfg.Cache = filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(cfg.Cache, nil, 0o600))
	})
	_, err := find(t, h, qwen)
	require.ErrorContains(t, err, "HF_HUB_CACHE")
	h, _, _ = f.client(t, func(cfg *hub.Config) { cfg.Cache = "" })
	_, err = find(t, h, qwen)
	require.ErrorContains(t, err, "HF_HOME")
}

// TestEtags: what is no checksum is not trusted as a name, and one that another tool left is.
func TestEtags(t *testing.T) {
	for etag, blob := range map[string]string{
		`"../../../../x"`: "", `"a/b/c/d/e"`: "", `W/"weak-etag"`: "weak-etag", "": "", `"` + fmt.Sprintf("%x", sha1.Sum([]byte("{}"))) + `"`: fmt.Sprintf("%x", sha1.Sum([]byte("{}"))), //nolint:gosec // as proxies have it
	} {
		f := newFakeHub(t)
		f.before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("X-Repo-Commit", first)
			w.Header()["Etag"] = []string{etag}
			_, _ = io.WriteString(w, "{}")
			return true
		}
		h, cache, _ := f.client(t, nil)
		_, err := find(t, h, qwen)
		require.NoError(t, err, etag)
		if blob == "" {
			blob = fmt.Sprintf("%x", sha256.Sum256([]byte("{}")))
		}
		names, err := os.ReadDir(filepath.Join(qwen.Folder(cache), "blobs"))
		require.NoError(t, err)
		require.Len(t, names, 1, etag)
		require.Equal(t, blob, names[0].Name())
	}
}

// TestTokenFile: read when it is needed; a pipe is not waited for.
func TestTokenFile(t *testing.T) {
	f := newFakeHub(t)
	file := filepath.Join(t.TempDir(), "token")
	ask := func() (string, error) {
		h, _, _ := f.client(t, func(cfg *hub.Config) { cfg.Token, cfg.TokenFile = "", file })
		_, err := find(t, h, qwen)
		return strings.Join(append(f.requests(), "")[:1], ""), err
	}
	said, err := ask()
	require.NoError(t, err)
	require.NotContains(t, said, "Bearer")
	require.NoError(t, os.WriteFile(file, []byte(" hf_other\r\n"), 0o600))
	said, err = ask()
	require.NoError(t, err)
	require.Contains(t, said, "Bearer hf_other /")
	require.NoError(t, os.Truncate(file, 1<<20))
	_, err = ask()
	require.ErrorContains(t, err, "token")
	require.Empty(t, f.requests())
}

// TestFromEnvironment: the variables of huggingface_hub.
func TestFromEnvironment(t *testing.T) {
	for _, name := range []string{
		"HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE",
		"TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN",
	} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CACHE_HOME", "/cache")
	require.Equal(t, hub.Config{Cache: "/cache/huggingface/hub", TokenFile: "/cache/huggingface/token"}, hub.FromEnvironment())
	t.Setenv("HF_HOME", "/hf")
	t.Setenv("HF_ENDPOINT", "http://mirror")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "old")
	t.Setenv("TRANSFORMERS_OFFLINE", "yes")
	require.Equal(t, hub.Config{Cache: "/hf/hub", Endpoint: "http://mirror", Token: "old", TokenFile: "/hf/token", Offline: true}, hub.FromEnvironment())
	t.Setenv("HF_TOKEN", "new")
	t.Setenv("HOME", "/home/me")
	t.Setenv("HF_TOKEN_PATH", "~/t")
	t.Setenv("TRANSFORMERS_OFFLINE", "0")
	require.Equal(t, hub.Config{Cache: "/hf/hub", Endpoint: "http://mirror", Token: "new", TokenFile: "/home/me/t"}, hub.FromEnvironment())
	t.Setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")
	require.Equal(t, hub.Config{Cache: "/hf/hub", Endpoint: "http://mirror"}, hub.FromEnvironment())
	for _, bad := range []string{"mirror", "ftp://x", "http://", "http://user:word@x", "http://%zz"} {
		_, err := hub.New(hub.Config{Endpoint: bad})
		require.ErrorContains(t, err, "HF_ENDPOINT", bad)
		require.NotContains(t, err.Error(), "word")
	}
}
