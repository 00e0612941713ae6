package modelfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/regularfile"
)

var (
	// ErrNotAllowed is a worker's path that leads out of the allowed folders.
	ErrNotAllowed = errors.New("modelfile: not below a folder that workers may name (--allow-model-path)")
	// ErrLate is a file system that does not answer in time.
	ErrLate = errors.New("modelfile: the file system did not answer in time")
)

// The largest files of each kind, in bytes. Real ones of 2026 are far below: a tokenizer.json of
// 262,144 tokens has 33 MB, a tokenizer_config.json 1.2 MB, a config.json 100 KB, a template 60 KB.
const (
	MaxTokenizer = 64 << 20
	MaxConfig    = 4 << 20
	MaxTemplate  = 256 << 10
)

const (
	// maxPath is PATH_MAX of Linux; a description may hold a text of megabytes instead.
	maxPath = 4096
	// maxReads bounds the goroutines that a hanging file system keeps.
	maxReads = 8
	// defaultDeadline is for a tokenizer.json on a slow network.
	defaultDeadline = 30 * time.Second
)

// Origin is the source of a path.
type Origin bool

const (
	// Worker is a path in a worker's description.
	Worker Origin = false
	// Operator is a path in the router's own configuration.
	Operator Origin = true
)

// Reader reads the files of models. The nil Reader reads nothing that a worker names.
type Reader struct {
	allowed  []string // absolute
	deadline time.Duration
	reads    chan struct{}
	open     func(name string, by Origin) (*os.File, error) // replaced in tests
}

// New returns a reader for which workers may name files below these folders, which need not exist
// yet.
func New(allowed []string) *Reader {
	r := &Reader{deadline: defaultDeadline, reads: make(chan struct{}, maxReads)}
	r.open = r.openRegular
	for _, folder := range allowed {
		if name, err := filepath.Abs(folder); err == nil && folder != "" {
			r.allowed = append(r.allowed, name)
		}
	}
	return r
}

// DefaultFolders are the folders below which workers may name files without further settings: the
// cache of Hugging Face's hub, and /models, where machines and containers keep models by custom.
func DefaultFolders() []string {
	folders := []string{"/models"}
	if hub := HubCache(); hub != "" {
		folders = append(folders, hub)
	}
	return folders
}

// Read returns the content of a file of at most limit bytes.
func (r *Reader) Read(ctx context.Context, name string, limit int64, by Origin) ([]byte, error) {
	return r.do(ctx, name, by, func(f *os.File) ([]byte, error) { return regularfile.Content(f, limit) })
}

// Find reports whether Read would find a file.
func (r *Reader) Find(ctx context.Context, name string, by Origin) error {
	_, err := r.do(ctx, name, by, func(*os.File) ([]byte, error) { return nil, nil })
	return err
}

// do opens a file and uses it on a goroutine of its own, since neither can be interrupted.
func (r *Reader) do(ctx context.Context, name string, by Origin, use func(*os.File) ([]byte, error)) ([]byte, error) {
	switch {
	case len(name) > maxPath || strings.IndexByte(name, 0) >= 0:
		return nil, fmt.Errorf("cannot read a path of %d bytes: %w", len(name), fs.ErrInvalid)
	case !filepath.IsAbs(name):
		return nil, fmt.Errorf("cannot read %s: %w: it is relative", name, fs.ErrNotExist)
	case r == nil:
		return nil, fmt.Errorf("cannot read %s: %w", name, ErrNotAllowed)
	}
	ctx, cancel := context.WithTimeout(ctx, r.deadline)
	defer cancel()
	select {
	case r.reads <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot read %s: %w: %w", name, ErrLate, ctx.Err())
	}
	type result struct {
		content []byte
		err     error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-r.reads }()
		f, err := r.open(filepath.Clean(name), by)
		if err != nil {
			done <- result{nil, err}
			return
		}
		content, err := use(f)
		_ = f.Close()
		done <- result{content, err}
	}()
	select {
	case res := <-done:
		if res.err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", name, res.err)
		}
		return res.content, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("cannot read %s: %w: %w", name, ErrLate, ctx.Err())
	}
}

// openRegular opens a regular file.
func (r *Reader) openRegular(name string, by Origin) (*os.File, error) {
	if by == Operator {
		return regularfile.Open(name, os.Stat, os.OpenFile)
	}
	folder, rest, err := r.resolve(name)
	if err != nil {
		return nil, err
	}
	// A link that takes the place of a part of the resolved path meanwhile leads nowhere: a root
	// follows none out of its folder.
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return regularfile.Open(rest, root.Stat, root.OpenFile)
}

// resolve returns the allowed folder that holds the file, without symbolic links, and the path
// below it. A path that does not begin below one is not even looked at: that could mount a file
// system or wait for one.
func (r *Reader) resolve(name string) (folder, rest string, err error) {
	below, folders := false, make([]string, len(r.allowed))
	for i, folder := range r.allowed {
		if folders[i], err = filepath.EvalSymlinks(folder); err != nil {
			folders[i] = folder
		}
		below = below || inside(folder, name) || inside(folders[i], name)
	}
	if !below {
		return "", "", ErrNotAllowed
	}
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", "", err
	}
	for _, folder := range folders {
		if inside(folder, resolved) {
			rest, err = filepath.Rel(folder, resolved)
			return folder, rest, err
		}
	}
	return "", "", fmt.Errorf("%w: it is a link to %s", ErrNotAllowed, resolved)
}

// inside reports whether a clean path lies below a folder.
func inside(folder, name string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(folder, "/"))
	return ok && strings.HasPrefix(rest, "/")
}
