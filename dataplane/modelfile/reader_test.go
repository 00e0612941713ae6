package modelfile_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// tree has an allowed folder, and a folder beside it.
type tree struct{ allowed, outside string }

func newTree(t *testing.T) tree {
	t.Helper()
	dir := t.TempDir()
	tr := tree{filepath.Join(dir, "models"), filepath.Join(dir, "secrets")}
	for _, folder := range []string{tr.allowed, tr.outside} {
		require.NoError(t, os.Mkdir(folder, 0o700))
	}
	return tr
}

// write makes a file and returns its path.
func write(t *testing.T, folder, name, content string) string {
	t.Helper()
	name = filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

// link makes a symbolic link and returns its path.
func link(t *testing.T, to, folder, name string) string {
	t.Helper()
	name = filepath.Join(folder, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.Symlink(to, name))
	return name
}

// TestWhatWorkersMayName: regular files below an allowed folder, by any links that stay there.
func TestWhatWorkersMayName(t *testing.T) {
	tr := newTree(t)
	alias := link(t, tr.allowed, filepath.Dir(tr.allowed), "alias")
	write(t, tr.allowed, "blobs/abc", "from the hub")
	names := map[string]string{
		"a file":                    write(t, tr.allowed, "plain/tokenizer.json", "from the hub"),
		"a link of the hub's cache": link(t, "../../blobs/abc", tr.allowed, "snapshots/1/tokenizer.json"),
		"an absolute link":          link(t, filepath.Join(tr.allowed, "blobs", "abc"), tr.allowed, "absolute"),
		"dots that stay inside":     tr.allowed + "/plain/../blobs/abc",
		"by the real path":          filepath.Join(tr.allowed, "blobs", "abc"),
	}
	for _, folder := range []string{tr.allowed, tr.allowed + "/", alias} {
		r := modelfile.New([]string{"/nowhere", folder})
		for what, name := range names {
			content, err := r.Read(t.Context(), name, 100, modelfile.Worker)
			require.NoError(t, err, "%s below %s", what, folder)
			require.Equal(t, "from the hub", string(content), what)
			require.NoError(t, r.Find(t.Context(), name, modelfile.Worker))
		}
	}
}

// TestWhatWorkersMayNotName: and each refusal comes at once and says what it is.
func TestWhatWorkersMayNotName(t *testing.T) {
	tr := newTree(t)
	secret := write(t, tr.outside, "tokenizer.json", "secret")
	fifo := filepath.Join(tr.allowed, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	socket := filepath.Join(tr.allowed, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	defer l.Close()
	sparse := write(t, tr.allowed, "sparse", "")
	require.NoError(t, os.Truncate(sparse, 1<<40))
	for _, test := range []struct {
		what, name string
		want       error
	}{
		{"a file outside", secret, modelfile.ErrNotAllowed},
		{"a folder with the allowed one's name as beginning", write(t, tr.allowed+"-private", "f", ""), modelfile.ErrNotAllowed},
		{"the folder itself", tr.allowed, modelfile.ErrNotAllowed},
		{"dots that lead out", tr.allowed + "/../secrets/tokenizer.json", modelfile.ErrNotAllowed},
		{"a link that leads out", link(t, secret, tr.allowed, "out"), modelfile.ErrNotAllowed},
		{"a folder that leads out", link(t, tr.outside, tr.allowed, "way") + "/tokenizer.json", modelfile.ErrNotAllowed},
		{"a link to a device", link(t, "/dev/zero", tr.allowed, "zero"), regularfile.ErrNotRegular},
		{"a device", "/dev/zero", regularfile.ErrNotRegular},
		{"a pipe", fifo, regularfile.ErrNotRegular},
		{"a link to a pipe", link(t, fifo, tr.allowed, "to-fifo"), regularfile.ErrNotRegular},
		{"a socket", socket, regularfile.ErrNotRegular},
		{"a folder", filepath.Dir(write(t, tr.allowed, "folder/f", "")), regularfile.ErrNotRegular},
		{"a sparse file", sparse, regularfile.ErrTooLarge},
		{"a file of one byte too many", write(t, tr.allowed, "large", strings.Repeat("x", 101)), regularfile.ErrTooLarge},
		{"a file that says it is empty", "/proc/self/smaps", regularfile.ErrTooLarge},
		{"nothing", filepath.Join(tr.allowed, "nothing"), fs.ErrNotExist},
		{"a link in a circle", link(t, "circle", tr.allowed, "circle"), nil},
		{"a relative path", "go.mod", fs.ErrNotExist},
		{"a hub's name", "some/model", fs.ErrNotExist},
		{"no path", "", fs.ErrNotExist},
		{"a path of a megabyte", "/" + strings.Repeat("a/", 1<<19), fs.ErrInvalid},
		{"a path with a zero byte", tr.allowed + "/a\x00b", fs.ErrInvalid},
	} {
		t.Run(test.what, func(t *testing.T) {
			content, err := modelfile.New([]string{tr.allowed, "/dev", "/proc"}).Read(t.Context(), test.name, 100, modelfile.Worker)
			require.Error(t, err)
			require.Empty(t, content)
			require.Less(t, len(err.Error()), 1000)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			if errors.Is(test.want, modelfile.ErrNotAllowed) {
				require.ErrorContains(t, err, "--allow-model-path")
			}
		})
	}
}

// TestWithoutFolders: nothing that a worker names is read.
func TestWithoutFolders(t *testing.T) {
	name := write(t, t.TempDir(), "tokenizer.json", "x")
	for _, r := range []*modelfile.Reader{nil, modelfile.New(nil), modelfile.New([]string{"relative", ""})} {
		_, err := r.Read(t.Context(), name, 100, modelfile.Worker)
		require.ErrorIs(t, err, modelfile.ErrNotAllowed)
	}
}

// TestWhatOperatorsName: from anywhere, and bounded all the same.
func TestWhatOperatorsName(t *testing.T) {
	tr := newTree(t)
	r := modelfile.New(nil)
	content, err := r.Read(t.Context(), link(t, write(t, tr.outside, "f", "x"), tr.allowed, "f"), 1, modelfile.Operator)
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	_, err = r.Read(t.Context(), write(t, tr.outside, "g", "xy"), 1, modelfile.Operator)
	require.ErrorIs(t, err, regularfile.ErrTooLarge)
	_, err = r.Read(t.Context(), "/dev/zero", 1, modelfile.Operator)
	require.ErrorIs(t, err, regularfile.ErrNotRegular)
}

// TestFolder: the size of a file is bounded by its kind.
func TestFolder(t *testing.T) {
	tr := newTree(t)
	r := modelfile.New([]string{tr.allowed})
	large := strings.Repeat("x", modelfile.MaxTemplate+1)
	write(t, tr.allowed, "chat_template.jinja", large)
	write(t, tr.allowed, "config.json", large)
	files := r.Folder(t.Context(), tr.allowed, modelfile.Worker)
	_, err := fs.ReadFile(files, "chat_template.jinja")
	require.ErrorIs(t, err, regularfile.ErrTooLarge)
	content, err := fs.ReadFile(files, "config.json")
	require.NoError(t, err)
	require.Len(t, content, len(large))
	_, err = files.Open("config.json")
	require.ErrorIs(t, err, fs.ErrInvalid)
}

// TestHangingFileSystem: callers leave at their deadline or when they are canceled, and only so
// many goroutines stay behind.
func TestHangingFileSystem(t *testing.T) {
	tr := newTree(t)
	name := write(t, tr.allowed, "f", "x")
	hang := make(chan struct{})
	r := modelfile.New([]string{tr.allowed})
	opened := r.Hang(hang)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	for range 20 {
		go func() {
			_, err := r.Read(ctx, name, 1, modelfile.Worker)
			failed <- err
		}()
	}
	for range 8 {
		<-opened
	}
	cancel()
	for range 20 {
		err := <-failed
		require.ErrorIs(t, err, modelfile.ErrLate)
		require.ErrorIs(t, err, context.Canceled)
	}
	select {
	case <-opened:
		t.Fatal("more files are opened than may hang")
	default:
	}
	r.SetDeadline(1)
	_, err := r.Read(t.Context(), name, 1, modelfile.Worker)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	r.SetDeadline(0)
	close(hang)
	content, err := r.Read(t.Context(), name, 1, modelfile.Worker)
	require.NoError(t, err, "it has come back")
	require.Equal(t, "x", string(content))
}
