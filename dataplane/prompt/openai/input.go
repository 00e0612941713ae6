package openai

import (
	"math/bits"
	"sync"
)

// longIDs is memory for the ids of a prompt that is too long to stay with a Request.
type longIDs struct{ ids []uint32 }

// longIDPools are by size: the first ones hold twice maxPooledIDs, and each next one twice as many,
// up to 32 Mi ids. New memory would be cleared for each such prompt, which is a tenth of the CPU of
// proxying it, and collected.
var longIDPools [7]sync.Pool // of *longIDs

// reserveLong provides memory for n more ids if all of them are too many to stay with a Request;
// shorter lists grow as they come.
func (in *Input) reserveLong(n int) {
	need := len(in.InputIDs) + n + groupIDs
	class := bits.Len(uint(need-1)/maxPooledIDs) - 1
	if need <= max(maxPooledIDs, cap(in.InputIDs)) || class >= len(longIDPools) {
		return
	}
	m, ok := longIDPools[class].Get().(*longIDs)
	if !ok {
		m = &longIDs{make([]uint32, 0, 2*maxPooledIDs<<class)}
	}
	ids := m.ids[:copy(m.ids[:cap(m.ids)], in.InputIDs)]
	in.releaseLong()
	in.long, in.InputIDs = m, ids
}

// releaseLong ends the use of long memory.
func (in *Input) releaseLong() {
	if in.long != nil {
		longIDPools[bits.Len(uint(cap(in.long.ids))/maxPooledIDs)-2].Put(in.long)
		in.long = nil
	}
}

// Input is the prompt of a request.
type Input struct {
	// InputIDs are the prompt's token ids; of a batch, the first prompt's. HasIDs reports that the
	// body carries ids, which then win over text, as they do in the worker.
	InputIDs []uint32
	HasIDs   bool
	// Text is the prompt as text with its escapes resolved; of a batch, the first prompt's. A lone
	// surrogate escape reads as U+FFFD.
	Text []byte
	// HasText tells an empty text from none.
	HasText bool
	// Prompt is the raw JSON string that Text was read from, nil when there is none.
	Prompt []byte
	// RawModel, Messages, Tools and TemplateKwargs are raw JSON; nil when absent or null.
	RawModel, Messages, Tools, TemplateKwargs []byte

	// Batch reports that the prompt is a list of prompts, even a list of one. N > 1 is not a batch.
	Batch bool
	// Prompts is the number of prompts: 1, or the batch's length.
	Prompts int
	// Shared counts the leading ids of InputIDs, or bytes of Text, that all of several prompts
	// begin with. Rest counts the ids of all of them behind that.
	Shared, Rest int
	// Multimodal reports that ids or text are not the whole prompt: images, audio, video, or
	// content parts of a kind not known to be text, or input_embeds.
	Multimodal bool

	maxID uint32   // of all prompts' ids
	long  *longIDs // the memory of InputIDs, where they are too many to stay
}
