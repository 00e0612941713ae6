package tokens

import "github.com/warmpath/warmpath/dataplane/fleet/worker"

// WorkerObserver tells Models of workers and their tokenizers; with nil Models, workers make all
// token ids.
type WorkerObserver struct{ Models *Models }

var _ worker.Observer = WorkerObserver{}

// Up implements worker.Observer.
func (o WorkerObserver) Up(w *worker.Worker, info *worker.Info) {
	if o.Models == nil || info == nil {
		return
	}
	t := &info.Tokenizer
	o.Models.WorkerUp(w.URL, info.Model(), Settings{
		Version: info.Version, Model: info.ModelPath, Tokenizer: t.Path, Revision: t.Revision, Mode: t.Mode, Skip: t.Skip, ChatTemplate: t.ChatTemplate,
		TemplateName: t.TemplateName, DefaultKwargs: t.DefaultKwargs, ToolCallParser: t.ToolCallParser, ReasoningParser: t.ReasoningParser,
	})
}

// Down implements worker.Observer.
func (o WorkerObserver) Down(w *worker.Worker) {
	if o.Models != nil {
		o.Models.WorkerDown(w.URL)
	}
}
