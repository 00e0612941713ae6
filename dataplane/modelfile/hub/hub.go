package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/regularfile"
)

var (
	// ErrUnavailable is a hub that does not answer as it should.
	ErrUnavailable = errors.New("the hub is unavailable")
	// ErrRefused is a hub that will not give a model's files.
	ErrRefused = errors.New("the hub does not give the model's files")
	// ErrOffline is a model that is not in the cache, where the hub may not be asked.
	ErrOffline = errors.New("the model is not in the hub's cache, and the hub may not be asked")
)

// Config of a Hub.
type Config struct {
	Cache     string // folder; "" is unknown
	Endpoint  string // URL of the hub; default https://huggingface.co
	Token     string // of the user; "" is that in TokenFile
	TokenFile string // "" or a file that need not exist
	Offline   bool   // nothing is fetched
	Transport http.RoundTripper
	Log       *slog.Logger
}

// FromEnvironment returns the settings of huggingface_hub's environment variables.
func FromEnvironment() Config {
	c := Config{
		Cache: modelfile.HubCache(), Endpoint: os.Getenv("HF_ENDPOINT"), Token: cmp.Or(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN")), TokenFile: modelfile.Expand(os.Getenv("HF_TOKEN_PATH")),
		Offline: isTrue("HF_HUB_OFFLINE") || isTrue("TRANSFORMERS_OFFLINE"),
	}
	if home := modelfile.HubHome(); c.TokenFile == "" && home != "" {
		c.TokenFile = filepath.Join(home, "token")
	}
	if isTrue("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
		c.Token, c.TokenFile = "", ""
	}
	return c
}

// isTrue reads a variable as huggingface_hub does.
func isTrue(name string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(os.Getenv(name)))
}

// Hub is Hugging Face's hub, or another with its API, and the local cache of it.
type Hub struct {
	cfg      Config
	endpoint *url.URL
}

const (
	defaultEndpoint = "https://huggingface.co"
	// maxHeader is five times the answers of the hub with their signed URLs.
	maxHeader = 64 << 10
	// answerTime bounds the wait for an answer's header. huggingface_hub gives it 10 s.
	answerTime = 30 * time.Second
	// fileTime bounds one file: the largest takes 4 minutes at 2 Mbit/s.
	fileTime = 5 * time.Minute
	// firstPause and maxPause are between two attempts, the former at a hub that is unavailable.
	firstPause, maxPause = time.Second, time.Minute
	// maxToken is many times a token.
	maxToken = 4 << 10
)

// New returns a hub. The error is an endpoint that is no URL.
func New(cfg Config) (*Hub, error) {
	if cfg.Endpoint == "" {
		cfg.Endpoint = defaultEndpoint
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: answerTime}).DialContext, TLSHandshakeTimeout: answerTime,
			ResponseHeaderTimeout: answerTime, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true, DisableCompression: true,
			IdleConnTimeout: answerTime,
		}
	}
	endpoint, err := url.Parse(strings.TrimRight(cfg.Endpoint, "/"))
	if err != nil || endpoint.Host == "" || endpoint.User != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" {
		return nil, errors.New("cannot use HF_ENDPOINT: want a URL such as " + defaultEndpoint)
	}
	return &Hub{cfg, endpoint}, nil
}

// Folder returns the folder with a model's files, and fetches them first where the cache has not
// got them. It tries again until ctx ends, and calls failed with each error: soon while the hub is
// unavailable, else each minute, since the reason may be mended meanwhile, such as a licence, the
// token's file or the cache. The error is that of ctx.
func (h *Hub) Folder(ctx context.Context, name modelfile.HubName, failed func(error)) (string, error) {
	if kept, ok := h.cfg.Transport.(interface{ CloseIdleConnections() }); ok {
		defer kept.CloseIdleConnections()
	}
	soon := firstPause
	for first := true; ; first = false {
		folder, err := h.find(ctx, name, first)
		if err == nil {
			return folder, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		failed(err)
		pause := maxPause
		if errors.Is(err, ErrUnavailable) {
			pause, soon = soon, min(2*soon, maxPause)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
	}
}

// find looks once into the cache and, where files are missing, at the hub.
func (h *Hub) find(ctx context.Context, name modelfile.HubName, first bool) (string, error) {
	if h.cfg.Cache == "" {
		return "", fmt.Errorf("%w: there is no folder for the cache: set HF_HOME", ErrOffline)
	}
	cached := "" // the snapshot, where it has the tokenizer
	commit, err := name.Commit(h.cfg.Cache, func(file string) ([]byte, error) { return regularfile.Read(file, modelfile.MaxRef) })
	if err == nil {
		s := snapshot{name, h.cfg.Cache, commit}
		switch {
		case s.complete():
			return s.path(), nil
		case s.has(modelfile.TokenizerFile):
			cached = s.path()
		}
	}
	folder := cached
	if !h.cfg.Offline {
		if first {
			h.cfg.Log.Info("fetching the tokenizer of a model from the hub", "model", name, "from", h.endpoint, "to", name.Folder(h.cfg.Cache))
		}
		folder, err = h.fetch(ctx, name, commit)
	}
	switch {
	case folder != "" && err == nil:
		return folder, nil
	case cached != "":
		h.cfg.Log.Warn("the hub's cache has not all files of a model; those that it has are used", "folder", cached, "error", err)
		return cached, nil
	case h.cfg.Offline:
		return "", fmt.Errorf("%w (HF_HUB_OFFLINE): run `hf download %s` where there is a network, and copy it to %s",
			ErrOffline, download(name), name.Folder(h.cfg.Cache))
	}
	return "", err
}

// download returns the arguments of `hf download` for the files of a model.
func download(name modelfile.HubName) string {
	args := append([]string{name.ID}, files()...)
	if name.Revision != "main" {
		args = append(args, "--revision", name.Revision)
	}
	return strings.Join(args, " ")
}

// files are the files that are fetched, the necessary one first.
func files() []string { return append(slices.Clone(modelfile.TokenizerFiles), modelfile.ConfigFile) }

// snapshot is a commit's part of a model's folder in the cache.
type snapshot struct {
	name          modelfile.HubName
	cache, commit string
}

func (s snapshot) path() string { return s.name.Snapshot(s.cache, s.commit) }

// has reports whether a file is there.
func (s snapshot) has(file string) bool { return isFile(filepath.Join(s.path(), file)) }

// lacks reports whether the hub is known not to have a file.
func (s snapshot) lacks(file string) bool {
	return isFile(filepath.Join(s.name.Folder(s.cache), ".no_exist", s.commit, file))
}

// complete reports whether nothing needs to be fetched: the files that each model of transformers
// has are there. One that was downloaded by other tools has no note of those that the hub lacks.
func (s snapshot) complete() bool {
	for _, file := range []string{"tokenizer_config.json", modelfile.ConfigFile} {
		if !s.has(file) && !s.lacks(file) {
			return false
		}
	}
	return s.has(modelfile.TokenizerFile)
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// token returns the user's token, "" where there is none.
func (h *Hub) token() (string, error) {
	if token := strings.TrimSpace(h.cfg.Token); token != "" || h.cfg.TokenFile == "" {
		return token, nil
	}
	text, err := regularfile.Read(h.cfg.TokenFile, maxToken)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return strings.TrimSpace(string(text)), err
}
