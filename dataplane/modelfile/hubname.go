package modelfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// HubName is the name of a model at Hugging Face's hub. None of its parts leads out of a folder or
// of a URL's path.
type HubName struct {
	ID       string // "Qwen/Qwen3-8B", or "gpt2" of the models that have no owner
	Revision string // a branch, a tag or a commit; default "main"
}

// errRef is a ref without a commit.
var errRef = errors.New("modelfile: not the commit of a revision")

// MaxRef bounds the file that has the commit of a revision, in bytes: 40 digits and a line's end.
const MaxRef = 64

var (
	// hubPart is an owner or a model, as huggingface_hub's validate_repo_id has them.
	hubPart = regexp.MustCompile(`^\w(?:[\w.-]{0,94}\w)?$`)
	// hubRevision is a branch, a tag or a commit, also refs/pr/1.
	hubRevision = regexp.MustCompile(`^\w[\w.+-]*(?:/\w[\w.+-]*)*$`)
	commit      = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// maxRevision is more than git gives a branch's file on any file system.
const maxRevision = 200

// ParseHubName reads "OWNER/MODEL", "MODEL" and both with "@REVISION".
func ParseHubName(text string) (_ HubName, ok bool) {
	n := HubName{Revision: "main"}
	id, revision, revised := strings.Cut(text, "@")
	n.ID = id
	if revised {
		n.Revision = revision
	}
	owner, model, owned := strings.Cut(id, "/")
	ok = hubPart.MatchString(owner) && (!owned || hubPart.MatchString(model)) &&
		!strings.Contains(id, "--") && !strings.Contains(id, "..") && !strings.HasSuffix(id, ".git") &&
		len(n.Revision) <= maxRevision && hubRevision.MatchString(n.Revision) && !strings.Contains(n.Revision, "..")
	return n, ok
}

// OperatorHubName reads a model's path that an operator gives: "OWNER/MODEL", where there is
// nothing of that name here, nor a link to what is not mounted.
func OperatorHubName(path string) (_ HubName, ok bool) {
	n, ok := ParseHubName(path)
	if !ok || !strings.Contains(n.ID, "/") {
		return n, false
	}
	_, err := os.Lstat(path)
	return n, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// String is the reverse of ParseHubName.
func (n HubName) String() string {
	if n.Revision == "main" {
		return n.ID
	}
	return n.ID + "@" + n.Revision
}

// Folder returns the model's folder in a cache of the hub: CACHE/models--OWNER--MODEL.
func (n HubName) Folder(cache string) string {
	return filepath.Join(cache, "models--"+strings.ReplaceAll(n.ID, "/", "--"))
}

// Commit returns the commit of the revision, which is one itself, or is in a file that read reads:
// CACHE/models--OWNER--MODEL/refs/REVISION.
func (n HubName) Commit(cache string, read func(file string) ([]byte, error)) (string, error) {
	if IsCommit(n.Revision) {
		return n.Revision, nil
	}
	text, err := read(filepath.Join(n.Folder(cache), "refs", n.Revision))
	if err != nil {
		return "", err
	}
	hash := strings.TrimSpace(string(text))
	if !IsCommit(hash) {
		return "", fmt.Errorf("%w: %s", errRef, n)
	}
	return hash, nil
}

// Snapshot returns the folder with the files of a commit.
func (n HubName) Snapshot(cache, commit string) string {
	return filepath.Join(n.Folder(cache), "snapshots", commit)
}

// IsCommit reports whether a text is the hash of a commit: 40 digits.
func IsCommit(text string) bool { return commit.MatchString(text) }

// HubCache returns the folder in which huggingface_hub keeps models, "" if it is unknown.
func HubCache() string {
	for _, name := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"} {
		if folder := os.Getenv(name); folder != "" {
			return Expand(folder)
		}
	}
	if home := HubHome(); home != "" {
		return filepath.Join(home, "hub")
	}
	return ""
}

// HubHome returns the folder of Hugging Face's tools, "" if it is unknown.
func HubHome() string {
	if home := os.Getenv("HF_HOME"); home != "" {
		return Expand(home)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "huggingface")
}

// Expand reads ~ and variables in a path of the environment, as huggingface_hub does: a unit of
// systemd has no shell that would.
func Expand(name string) string {
	name = os.ExpandEnv(name)
	rest, ok := strings.CutPrefix(name, "~/")
	if home, err := os.UserHomeDir(); ok && err == nil {
		return filepath.Join(home, rest)
	}
	return name
}
