package tokens

import (
	"errors"
	"strings"
	"time"
)

// servedModel is the state of a served name.
type servedModel struct {
	workers   map[string]*workerSettings // that serve the name now, by URL
	different bool                       // the workers are not alike
	// Of the workers, where they are alike; after the last worker left, the previous one.
	want fingerprint

	model *Model // the last one loaded; nil after a failure
	err   error  // of the failure

	loaded  fingerprint // of model and err
	loading fingerprint // being loaded

	left time.Time // its last worker
}

// maxLeft bounds the names that are kept without a worker: a model takes up to some 100 MB, and
// workers may come under ever new names.
const maxLeft = 16

// workerSettings are the settings of one worker.
type workerSettings struct {
	settings    Settings
	fingerprint fingerprint // none: its files are being read
}

// current returns the model that requests may use, nil for none.
func (sl *servedModel) current() *Model {
	if sl.different || sl.want == (fingerprint{}) || sl.loaded != sl.want {
		return nil
	}
	return sl.model
}

// reason explains a missing current model; nil while files are being read.
func (sl *servedModel) reason() error {
	switch {
	case sl.different:
		return errDiffer
	case sl.loaded == sl.want:
		return sl.err
	}
	return nil
}

// errDiffer is a name that workers serve with settings that may make different tokens.
var errDiffer = errors.New("tokens: workers of this model make tokens in different ways")

// equalArgs reports whether two workers have the same arguments, in any releases.
func (s Settings) equalArgs(other Settings) bool {
	s.Version = other.Version
	return s == other
}

// WorkerUp notes that a worker serves name with these settings. The model's files are read in the
// background: workers are alike where the contents of their files are, at any path. A model is
// loaded once; a failure is logged, and its workers make the ids.
func (ms *Models) WorkerUp(worker, name string, s Settings) {
	s.clip()
	o := &workerSettings{settings: s}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.removeLocked(worker)
	sl := ms.served[name]
	if sl == nil {
		sl = &servedModel{workers: map[string]*workerSettings{}}
		ms.served[name] = sl
	}
	for _, other := range sl.workers {
		if other.settings.equalArgs(s) {
			// A guess until the files are read: they may have changed since.
			o.fingerprint = other.fingerprint
		}
	}
	sl.workers[worker] = o
	ms.updateLocked(name, sl)
	ms.readLocked(name, sl, worker)
}

// readLocked reads the files of a worker in the background, those of the operator's folder if there
// is one.
func (ms *Models) readLocked(name string, sl *servedModel, worker string) {
	o, folder := sl.workers[worker], ms.ownLocked(name)
	ms.inBackground(func() {
		found := ms.files(folder).fingerprint(&o.settings)
		ms.mu.Lock()
		defer ms.mu.Unlock()
		if folder.path != ms.ownLocked(name).path {
			return // it has come meanwhile, and is read too
		}
		o.fingerprint = found
		if sl.workers[worker] == o {
			ms.updateLocked(name, sl)
		}
	})
}

// WorkerDown notes that a worker serves nothing any more. A loaded model stays for its next worker,
// until maxLeft others have lost theirs.
func (ms *Models) WorkerDown(worker string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.removeLocked(worker)
}

func (ms *Models) removeLocked(worker string) {
	for name, sl := range ms.served {
		if sl.workers[worker] == nil {
			continue
		}
		delete(sl.workers, worker)
		ms.updateLocked(name, sl)
	}
}

// updateLocked recomputes the state of a name from its workers.
func (ms *Models) updateLocked(name string, sl *servedModel) {
	defer ms.publishLocked()
	if len(sl.workers) == 0 {
		sl.left = ms.cfg.Now()
		ms.forgetLocked()
		return
	}
	var one *workerSettings
	alike, read := true, true
	for _, o := range sl.workers {
		read = read && o.fingerprint != fingerprint{}
		alike = alike && (one == nil || o.fingerprint == one.fingerprint)
		one = o
	}
	if !read {
		sl.want = fingerprint{} // unknown for the moment
		return
	}
	if differ := !alike; differ != sl.different {
		sl.different = differ
		if differ {
			ms.cfg.Log.Warn("token ids are left to the workers: two of them make them in different ways", "model", name)
		} else {
			ms.cfg.Log.Info("the workers make token ids in one way again", "model", name)
		}
	}
	if !alike {
		return
	}
	sl.want = one.fingerprint
	if sl.loaded != sl.want && sl.loading != sl.want {
		sl.loading = sl.want
		settings, want, folder := one.settings, sl.want, ms.ownLocked(name)
		ms.inBackground(func() { ms.load(name, sl, settings, want, folder) })
	}
}

// forgetLocked forgets the name that has been without a worker for longest, where too many are.
func (ms *Models) forgetLocked() {
	oldest, n := "", 0
	for name, sl := range ms.served {
		if len(sl.workers) > 0 {
			continue
		}
		if n++; oldest == "" || sl.left.Before(ms.served[oldest].left) {
			oldest = name
		}
	}
	if n > maxLeft {
		delete(ms.served, oldest)
	}
}

// load reads a model's files, which takes up to some seconds.
func (ms *Models) load(name string, sl *servedModel, settings Settings, want fingerprint, folder ownFolder) {
	began := time.Now()
	m, err := ms.files(folder).load(settings, ms.cfg.PromptCache.NewRoot())
	if err == nil {
		m.chatErr = brief(m.chatErr)
		for k := range m.verifications {
			m.verifications[k].needed.Store(ms.cfg.NeededInARow)
		}
	}
	if ms.ctx.Err() != nil {
		return
	}
	err = brief(err)
	ms.logLoaded(name, m, err, time.Since(began))
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if sl.loading != want {
		return // its workers changed meanwhile
	}
	sl.model, sl.err, sl.loaded, sl.loading = m, err, want, fingerprint{}
	ms.publishLocked()
}

// maxReason bounds the text of an error that logs and /status show: it may quote a file or a
// worker's description.
const maxReason = 600

// brief cuts an error with a long text.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxReason {
		return err
	}
	return errors.New(strings.ToValidUTF8(err.Error()[:maxReason], "") + "…")
}

func (ms *Models) logLoaded(name string, m *Model, err error, took time.Duration) {
	switch {
	case errors.Is(err, errNoFiles):
		ms.cfg.Log.Info("token ids are left to the workers", "model", name, "reason", err)
	case err != nil:
		ms.cfg.Log.Warn("token ids are left to the workers", "model", name, "reason", err)
	default:
		ms.cfg.Log.Info("tokenizer loaded; its ids are compared with a worker's before they are used", "model", name, "folder", m.folder,
			"seconds", took.Seconds())
		for _, notice := range m.text.Notices() {
			ms.cfg.Log.Info("tokenizer", "model", name, "notice", notice)
		}
		if m.chatErr != nil {
			ms.cfg.Log.Warn("chats are left to the workers", "model", name, "reason", m.chatErr)
		}
	}
}

// publishLocked makes the loaded models visible to requests.
func (ms *Models) publishLocked() {
	ready := map[string]*Model{}
	for name, sl := range ms.served {
		if m := sl.current(); m != nil {
			ready[name] = m
		}
	}
	ms.ready.Store(&ready)
}
