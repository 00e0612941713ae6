package admin

import (
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

var (
	descPromptLists = desc("session_prompts_total",
		"Chats that the router tokenized: known ones began like an earlier one in the prompt "+
			"cache, fresh ones did not.", "result")
	descPromptBytes = desc("session_prompt_bytes_total",
		"Bytes of those chats' rendered text: recalled ones were found in the prompt cache, "+
			"parsed ones were not.", "kind")
	descPromptEvicted = desc("session_evictions_total",
		"Pieces of prompts that the prompt cache evicted.")
	descPromptPieces = desc("session_pieces",
		"Pieces of prompts in the prompt cache: text between two ends of messages.")
	descPromptMemory = desc("session_cache_bytes", "Memory of the prompt cache.")
)

func (out sink) promptCache(st promptcache.Stats) {
	out.counter(descPromptLists, float64(st.Known), "known")
	out.counter(descPromptLists, float64(st.Fresh), "fresh")
	out.counter(descPromptBytes, float64(st.RecalledBytes), "recalled")
	out.counter(descPromptBytes, float64(st.EncodedBytes), "parsed")
	out.counter(descPromptEvicted, float64(st.Evicted))
	out.gauge(descPromptPieces, float64(st.Pieces))
	out.gauge(descPromptMemory, float64(st.Bytes))
}
