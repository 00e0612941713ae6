package admin

import (
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/radix/approx"
)

var (
	descIndexBlocks = desc("index_blocks", "Block copies in the index, all workers.")
	descIndexNodes  = desc("index_nodes", "Runs in the index's tree.")
	descIndexBytes  = desc("index_bytes", "Estimated memory of the index.")
	descPredictions = desc("index_predictions",
		"Prompts in flight, or answered just now, whose blocks the index predicts.")
	descIndexMax = desc("index_max_bytes",
		"Bound of index_bytes, without predictions; 0: none.")
	descIndexDomains = desc("index_domains",
		"Models, block sizes, adapters and salts that the index keeps apart.")
	descIndexEvicted = desc("index_evicted_blocks_total",
		"Block copies that the index evicted to keep its bound.")
	descIndexRefused = desc("index_refused_stores_total",
		"Stores that the index refused: parent (it was evicted) or room.", "reason")

	descApproxBytes = desc("approx_bytes", "Memory of the tree of sent prompts.")
	descApproxMax   = desc("approx_max_bytes", "Bound of approx_bytes.")
	descApproxNodes = desc("approx_nodes", "Nodes of the tree of sent prompts.")
	descApproxGone  = desc("approx_evictions_total",
		"Parts dropped from the tree of sent prompts: memory (approx_max_bytes), capacity (of "+
			"the worker), stale (an answer showed that the engine had evicted them) or failed "+
			"(their request did).", "reason")
	descApproxCorrected = desc("approx_corrections_total",
		"Answers that reported less (contradicted) or more (surprised) cached tokens than the "+
			"tree of sent prompts had.", "kind")
)

func (out sink) index(st radix.Stats) {
	out.gauge(descIndexBlocks, float64(st.Entries))
	out.gauge(descIndexNodes, float64(st.Runs))
	out.gauge(descIndexBytes, float64(st.Bytes))
	out.gauge(descPredictions, float64(st.Predictions))
	out.gauge(descIndexMax, float64(st.MaxBytes))
	out.gauge(descIndexDomains, float64(st.Domains))
	out.counter(descIndexEvicted, float64(st.EvictedBlocks))
	out.counter(descIndexRefused, float64(st.EvictedParents), "parent")
	out.counter(descIndexRefused, float64(st.Refused), "room")
}

func (out sink) approx(st approx.Stats) {
	out.gauge(descApproxBytes, float64(st.Bytes))
	out.gauge(descApproxMax, float64(st.MaxBytes))
	out.gauge(descApproxNodes, float64(st.Nodes))
	out.counter(descApproxGone, float64(st.EvictedMemory), "memory")
	out.counter(descApproxGone, float64(st.EvictedCapacity), "capacity")
	out.counter(descApproxGone, float64(st.EvictedStale), "stale")
	out.counter(descApproxGone, float64(st.Withdrawn), "failed")
	out.counter(descApproxCorrected, float64(st.Contradicted), "contradicted")
	out.counter(descApproxCorrected, float64(st.Surprised), "surprised")
}
