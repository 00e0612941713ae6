package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // git's, which the hub tells
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/regularfile"
)

// fetching is the transfer of one model's files into its folder of the cache. Its paths are below
// that folder, and lead nowhere else by any link.
type fetching struct {
	*Hub
	name   modelfile.HubName
	root   *os.Root // nil until the first answer: a model that is not there leaves no folder
	token  string
	commit string // by the cache or the name, else "" until the first answer
	bytes  int64
}

// errNoEntry is a file that the model does not have.
var errNoEntry = errors.New("no such file")

// fetch gets the files of a model into the cache and returns their folder. They are of commit, or
// of the revision's latest where that is "".
func (h *Hub) fetch(ctx context.Context, name modelfile.HubName, commit string) (string, error) {
	token, err := h.token()
	if err != nil {
		return "", fmt.Errorf("cannot read the token for the hub: %w", err)
	}
	began := time.Now()
	f := &fetching{Hub: h, name: name, token: token, commit: commit}
	err = f.run(ctx)
	if f.root != nil {
		_ = f.root.Close() // it has been read
	}
	if err != nil {
		return "", err
	}
	h.cfg.Log.Info("fetched the tokenizer of a model from the hub", "model", name, "commit", f.commit, "bytes", f.bytes, "seconds", time.Since(began).Seconds())
	return name.Snapshot(h.cfg.Cache, f.commit), nil
}

// run gets the files that are missing, and then makes the necessary one and the ref visible. A ref
// that is there stays: the files of the workers that share the cache are of its commit.
func (f *fetching) run(ctx context.Context) error {
	known, necessary := f.commit != "", ""
	all := files()
	for i, file := range all {
		if s := (snapshot{f.name, f.cfg.Cache, f.commit}); f.commit != "" && (s.has(file) || i > 0 && s.lacks(file)) {
			continue
		}
		blob, err := f.get(ctx, file)
		switch missing := errors.Is(err, errNoEntry); {
		case missing && i == 0:
			return fmt.Errorf("%w: %s has no %s, so that only its workers can tokenize", ErrRefused, f.name, file)
		case missing:
			err = f.write(path.Join(".no_exist", f.commit, file), "")
		case i == 0:
			necessary = blob
		case err == nil:
			err = f.link(file, blob)
		}
		if err != nil {
			return err
		}
	}
	if necessary != "" {
		if err := f.link(all[0], necessary); err != nil {
			return err
		}
	}
	if known {
		return nil
	}
	return f.write(path.Join("refs", f.name.Revision), f.commit)
}

// get returns the blob of a file, which it fetches where it is not there. The first file decides
// the commit of the others.
func (f *fetching) get(ctx context.Context, file string) (blob string, err error) {
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	e, err := f.open(ctx, f.endpoint.JoinPath(f.name.ID, "resolve", url.PathEscape(cmp.Or(f.commit, f.name.Revision)), file))
	if err != nil {
		return "", fmt.Errorf("cannot fetch %s of %s: %w", file, f.name, err)
	}
	defer e.body.Close()
	if err := f.check(e, file); err != nil {
		return "", err
	}
	limit := modelfile.Limit(file)
	if max(e.size, e.linked) > limit {
		return "", fmt.Errorf("%w: %s of %s has %d bytes: %w", ErrRefused, file, f.name, max(e.size, e.linked), regularfile.ErrTooLarge)
	}
	f.commit = e.commit
	if err := f.makeFolder(); err != nil {
		return "", cacheError(err)
	}
	if blobName.MatchString(e.etag) {
		if info, err := f.root.Stat(path.Join("blobs", e.etag)); err == nil && info.Mode().IsRegular() {
			return e.etag, nil
		}
	}
	blob, err = f.save(e, limit)
	switch {
	case errors.Is(err, regularfile.ErrTooLarge):
		return "", fmt.Errorf("%w: %s of %s: %w", ErrRefused, file, f.name, err)
	case errors.Is(err, ErrUnavailable):
		return "", fmt.Errorf("cannot fetch %s of %s: %w", file, f.name, err)
	}
	return blob, cacheError(err)
}

// makeFolder makes the model's folder of the cache.
func (f *fetching) makeFolder() (err error) {
	if f.root != nil {
		return nil
	}
	folder := f.name.Folder(f.cfg.Cache)
	if err = os.MkdirAll(folder, 0o777); err == nil { // less the umask, as huggingface_hub has it
		f.root, err = os.OpenRoot(folder)
	}
	return err
}

// blobName is an etag that is a file's name: a checksum as a rule.
var blobName = regexp.MustCompile(`^[0-9A-Za-z_-]{8,128}$`)

// check returns the error in the answer for a file, with the remedy.
func (f *fetching) check(e *entry, file string) error {
	where := f.endpoint.String() + "/" + f.name.ID
	switch missing := e.status == http.StatusNotFound; {
	case e.status == http.StatusOK && !modelfile.IsCommit(e.commit):
		return fmt.Errorf("%w: %s does not tell the commit of its files: is HF_ENDPOINT a hub?", ErrRefused, f.endpoint.Host)
	case e.status == http.StatusOK && modelfile.IsCommit(cmp.Or(f.commit, f.name.Revision)) && e.commit != cmp.Or(f.commit, f.name.Revision):
		return fmt.Errorf("%w: asked for commit %s of %s, it answered with %s", ErrRefused, cmp.Or(f.commit, f.name.Revision), f.name.ID, e.commit)
	case e.status == http.StatusOK:
		return nil
	case e.code == "GatedRepo" && f.token == "":
		return fmt.Errorf("%w: %s is gated: accept its licence at %s, and set HF_TOKEN, or HF_TOKEN_PATH to a file with it", ErrRefused, f.name.ID, where)
	case e.code == "GatedRepo":
		return fmt.Errorf("%w: %s is gated, and not open to the user of the token: accept its licence at %s", ErrRefused, f.name.ID, where)
	case e.code == "RevisionNotFound":
		return fmt.Errorf("%w: %s has no revision %s", ErrRefused, f.name.ID, cmp.Or(f.commit, f.name.Revision))
	case missing && (e.code == "EntryNotFound" || e.code == "" && f.commit != ""):
		return errNoEntry
	case missing && e.code == "":
		return fmt.Errorf("%w: %s has no %s, or does not exist: see %s", ErrRefused, f.name, file, where)
	case e.code == "RepoNotFound", missing:
		return fmt.Errorf("%w: there is no folder %s here, and no model of that name at %s that this user may see: mend the name, or set HF_TOKEN if it is private",
			ErrRefused, f.name.ID, f.endpoint.Host)
	case e.status == http.StatusUnauthorized || e.status == http.StatusForbidden:
		return fmt.Errorf("%w: %s answers %d for %s: set HF_TOKEN to a token that may read it", ErrRefused, f.endpoint.Host, e.status, f.name.ID)
	case e.status >= 500, e.status == http.StatusTooManyRequests, e.status == http.StatusRequestTimeout:
		return fmt.Errorf("%w: it answers %d for %s of %s", ErrUnavailable, e.status, file, f.name)
	}
	return fmt.Errorf("%w: it answers %d for %s of %s", ErrRefused, e.status, file, f.name)
}

// entry is an answer for one file.
type entry struct {
	status int
	body   io.ReadCloser
	size   int64 // of body; -1 unknown

	// By the hub itself, also where another host has the content.
	commit string
	code   string // of an error
	etag   string
	linked int64 // bytes of the file; 0 unknown
}

// maxRedirects is twice those of a renamed model that has the file at another host.
const maxRedirects = 6

// open asks for a file and follows redirects. Another host gets no token, and decides nothing but
// the content, which has to have the hub's checksum.
func (f *fetching) open(ctx context.Context, at *url.URL) (*entry, error) {
	e := &entry{}
	for range maxRedirects {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", "warmpath")
		// A coded body has another length and checksum.
		req.Header.Set("Accept-Encoding", "identity")
		own := at.Host == f.endpoint.Host // also where it sends http on to https
		if own && f.token != "" {
			req.Header.Set("Authorization", "Bearer "+f.token)
		}
		resp, err := f.cfg.Transport.RoundTrip(req)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, at.Host, err)
		}
		if own {
			e.note(resp)
		}
		if resp.StatusCode/100 != 3 {
			e.status, e.body, e.size = resp.StatusCode, resp.Body, resp.ContentLength
			return e, nil
		}
		_ = resp.Body.Close() // nothing of it is used
		next, err := resp.Location()
		if err != nil || next.Host == "" || next.Scheme != "https" && next.Scheme != f.endpoint.Scheme {
			return nil, fmt.Errorf("%w: %s redirects to what is no URL of %s", ErrRefused, at.Host, f.endpoint.Scheme)
		}
		at = next
	}
	return nil, fmt.Errorf("%w: %d redirects", ErrRefused, maxRedirects)
}

// note keeps the facts of a file in an answer of the hub itself.
func (e *entry) note(resp *http.Response) {
	e.commit = cmp.Or(e.commit, resp.Header.Get("X-Repo-Commit"))
	e.code = resp.Header.Get("X-Error-Code")
	etag := resp.Header.Get("X-Linked-Etag")
	if etag == "" && resp.StatusCode == http.StatusOK { // that of a redirect is its own
		etag = resp.Header.Get("ETag")
	}
	e.etag = cmp.Or(e.etag, strings.Trim(strings.TrimPrefix(etag, "W/"), `"`))
	if n, err := strconv.ParseInt(resp.Header.Get("X-Linked-Size"), 10, 64); err == nil {
		e.linked = n
	}
}

// save writes an answer's content to a blob, and returns its name: the etag, or the content's
// checksum where there is none.
func (f *fetching) save(e *entry, limit int64) (blob string, err error) {
	if err := f.root.MkdirAll("blobs", 0o777); err != nil {
		return "", err
	}
	temporary := path.Join("blobs", rand.Text()+".incomplete")
	to, err := f.root.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", err
	}
	defer func() {
		_ = to.Close() // again, after an error
		if err != nil {
			_ = f.root.Remove(temporary)
		}
	}()
	n, err := io.Copy(to, io.LimitReader(reading{e.body}, limit+1))
	switch {
	case err != nil:
		return "", err
	case n > limit:
		return "", fmt.Errorf("%w: more than %d bytes", regularfile.ErrTooLarge, limit)
	case e.linked > 0 && n != e.linked:
		return "", fmt.Errorf("%w: %d bytes came of %d", ErrUnavailable, n, e.linked)
	}
	sum, err := checksum(to, n, e.etag)
	if err != nil {
		return "", err
	}
	if err := errors.Join(to.Sync(), to.Close()); err != nil {
		return "", err
	}
	f.bytes += n
	return sum, f.root.Rename(temporary, path.Join("blobs", sum))
}

// reading marks errors of the network among those of the disk.
type reading struct{ io.Reader }

// Read implements io.Reader.
func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // as readers return it
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return n, err
}

// checksum returns the name of n bytes of content: its etag, which it has to have where that is a
// checksum: the SHA-256 of large files, git's SHA-1 of others, or their plain one, as proxies of
// hubs have it.
func checksum(content io.ReadSeeker, n int64, etag string) (string, error) {
	sums := map[string]hash.Hash{"sha256": sha256.New(), "git": sha1.New(), "sha1": sha1.New()} //nolint:gosec // as above
	_, _ = fmt.Fprintf(sums["git"], "blob %d\x00", n)
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	if _, err := io.Copy(io.MultiWriter(sums["sha256"], sums["git"], sums["sha1"]), content); err != nil {
		return "", err
	}
	text := func(name string) string { return hex.EncodeToString(sums[name].Sum(nil)) }
	switch isHex := strings.Trim(etag, "0123456789abcdef") == ""; {
	case isHex && len(etag) == 2*sha256.Size && etag != text("sha256"),
		isHex && len(etag) == 2*sha1.Size && etag != text("git") && etag != text("sha1"):
		return "", fmt.Errorf("%w: the content has not the checksum %s", ErrUnavailable, etag)
	case blobName.MatchString(etag):
		return etag, nil
	}
	return text("sha256"), nil
}

// link makes a blob visible in the snapshot.
func (f *fetching) link(file, blob string) error {
	return f.replace(path.Join("snapshots", f.commit, file), func(temporary string) error {
		return f.root.Symlink(path.Join("..", "..", "blobs", blob), temporary)
	})
}

// write writes a small file.
func (f *fetching) write(name, text string) error {
	return f.replace(name, func(temporary string) error { return f.root.WriteFile(temporary, []byte(text), 0o666) })
}

// replace makes something under another name, and renames it: it is there at once and whole.
func (f *fetching) replace(name string, create func(temporary string) error) error {
	if err := f.makeFolder(); err != nil {
		return cacheError(err)
	}
	err := f.root.MkdirAll(path.Dir(name), 0o777)
	temporary := name + "." + rand.Text() + ".incomplete"
	if err == nil {
		err = create(temporary)
	}
	if err == nil {
		err = f.root.Rename(temporary, name)
	}
	if err != nil {
		_ = f.root.Remove(temporary)
	}
	return cacheError(err)
}

var temporaryName = regexp.MustCompile(`\.?[A-Z2-7]{26,}\.incomplete`)

// cacheError adds the remedy to an error of the disk, and leaves out the names of temporary files,
// which differ from one attempt to the next.
func cacheError(err error) error {
	if err == nil {
		return nil
	}
	err = errors.New(temporaryName.ReplaceAllString(err.Error(), ""))
	return fmt.Errorf("cannot write to the hub's cache: %w: set HF_HUB_CACHE to a folder that this user may write", err)
}
