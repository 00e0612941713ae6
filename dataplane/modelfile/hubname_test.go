package modelfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/modelfile"
)

// TestHubCache: where huggingface_hub looks.
func TestHubCache(t *testing.T) {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", "/home/me")
	t.Setenv("XDG_CACHE_HOME", "")
	require.Equal(t, "/home/me/.cache/huggingface/hub", modelfile.HubCache())
	t.Setenv("XDG_CACHE_HOME", "/cache")
	require.Equal(t, "/cache/huggingface/hub", modelfile.HubCache())
	t.Setenv("HF_HOME", "/home/hf")
	require.Equal(t, "/home/hf/hub", modelfile.HubCache())
	t.Setenv("HF_HOME", "~/hf") // of systemd, which has no shell
	require.Equal(t, "/home/me/hf/hub", modelfile.HubCache())
	t.Setenv("HUGGINGFACE_HUB_CACHE", "$HOME/old")
	require.Equal(t, "/home/me/old", modelfile.HubCache())
	t.Setenv("HF_HUB_CACHE", "/hub")
	require.Equal(t, "/hub", modelfile.HubCache())
	require.Equal(t, []string{"/models", "/hub"}, modelfile.DefaultFolders())
}

// TestHubNames: what huggingface_hub takes, and nothing that leads out of a folder.
func TestHubNames(t *testing.T) {
	for text, want := range map[string]modelfile.HubName{
		"Qwen/Qwen3-8B":                     {ID: "Qwen/Qwen3-8B", Revision: "main"},
		"Qwen/Qwen3-8B@v1.0":                {ID: "Qwen/Qwen3-8B", Revision: "v1.0"},
		"a/b@refs/pr/1":                     {ID: "a/b", Revision: "refs/pr/1"},
		"gpt2":                              {ID: "gpt2", Revision: "main"},
		"_a.b-c/" + strings.Repeat("x", 96): {ID: "_a.b-c/" + strings.Repeat("x", 96), Revision: "main"},
	} {
		name, ok := modelfile.ParseHubName(text)
		require.True(t, ok, text)
		require.Equal(t, want, name)
		require.Equal(t, text, name.String())
	}
	for _, text := range []string{
		"", "/", "a/", "/a", "/a/b", "./a", "../a", "a/..", "a/../b", "../../etc/passwd", "a/b/c", "~/a", "a..b/c", "a--b", "a/b--c", "-a/b", "a/b-", ".a/b", "a/b.",
		"a/b.git", "a b/c", "a\x00/b", "a\n/b", "é/b", "a%2f..%2fb/c", "a?b/c", "a#b/c", "a\\..\\b/c", "http://a/b", strings.Repeat("x", 97), "a/b@", "a/b@/x", "a/b@x/",
		"a/b@..", "a/b@../x", "a/b@x/../../y", "a/b@x//y", "a/b@x/.y", "a/b@x\x00", "a/b@x?y", "a/b@x@y", "a/b@" + strings.Repeat("x", 201), "@x", "a/b@x..y", "a/b\n",
	} {
		_, ok := modelfile.ParseHubName(text)
		require.False(t, ok, "%q", text)
		_, ok = modelfile.OperatorHubName(text)
		require.False(t, ok, "%q", text)
	}
}

// TestOperatorHubName: a folder is a folder, and a model without an owner is rather a mistaken one.
func TestOperatorHubName(t *testing.T) {
	t.Chdir(t.TempDir())
	name, ok := modelfile.OperatorHubName("owner/model")
	require.True(t, ok)
	require.Equal(t, "owner/model", name.ID)
	require.NoError(t, os.MkdirAll("owner/model", 0o700))
	require.NoError(t, os.Symlink("not/mounted", "owner/link"))
	require.NoError(t, os.WriteFile("file", nil, 0o600))
	_, ok = modelfile.OperatorHubName("file/model")
	require.True(t, ok)
	for _, path := range []string{"owner/model", "owner/link", "./owner/other", "gpt2", filepath.Join(t.TempDir(), "model")} {
		_, ok = modelfile.OperatorHubName(path)
		require.False(t, ok, path)
	}
}

// TestHubCommit: of the ref, which is no path.
func TestHubCommit(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	name := modelfile.HubName{ID: "a/b", Revision: "refs/pr/1"}
	asked, text := "", hash+"\n"
	read := func(file string) ([]byte, error) { asked = file; return []byte(text), nil }
	commit, err := name.Commit("/c", read)
	require.NoError(t, err)
	require.Equal(t, hash, commit)
	require.Equal(t, "/c/models--a--b/refs/refs/pr/1", asked)
	require.Equal(t, "/c/models--a--b/snapshots/"+hash, name.Snapshot("/c", commit))
	for _, text = range []string{"", "main", "../../../etc", hash[1:], hash + "0", strings.ToUpper(hash)} {
		_, err = name.Commit("/c", read)
		require.Error(t, err, text)
	}
	_, err = name.Commit("/c", func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	require.ErrorIs(t, err, fs.ErrNotExist)
	commit, err = modelfile.HubName{ID: "a/b", Revision: hash}.Commit("/c", nil)
	require.NoError(t, err)
	require.Equal(t, hash, commit)
}
