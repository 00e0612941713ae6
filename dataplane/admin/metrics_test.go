package admin_test

import (
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var labelOf = regexp.MustCompile(`(?m)^(\w+)\{.*?\b(worker|rank)="([^"]*)"`)

// TestOneLabelForOneThing: worker is a worker's URL wherever it stands, and rank one of its ranks.
func TestOneLabelForOneThing(t *testing.T) {
	w := newFakeWorker(t, info(2))
	w.answers("/generate", `{"text":"x","meta_info":{"id":"1","prompt_tokens":9,"completion_tokens":2,"cached_tokens":8,"finish_reason":{"type":"stop"}}}`)
	h := start(t, []*fakeWorker{w}, settings{})
	h.post("/generate", `{"input_ids":[1,2,3,4,5,6,7,8,9]}`)
	h.awaitIdle()
	text := h.scrape()
	require.Contains(t, text, "warmpath_requests_total{")
	require.Contains(t, text, `warmpath_build_info{goversion="`+runtime.Version()+`",version="test"} 1`)
	for _, found := range labelOf.FindAllStringSubmatch(text, -1) {
		if found[2] == "worker" {
			assert.Equal(t, w.url, found[3], found[0])
		} else {
			assert.Contains(t, []string{"0", "1"}, found[3], found[0])
			assert.Regexp(t, `(?m)^`+found[1]+`\{.*rank="`+found[3]+`".*worker="`+regexp.QuoteMeta(w.url)+`"`, text)
		}
	}
}

// TestScrapeOfManyWorkers: Prometheus, which takes gzip, reads less than 1 MB of 1,000 workers that have
// all answered: a tenth of that of 100 ranks, beside what there is once.
func TestScrapeOfManyWorkers(t *testing.T) {
	const ranks = 100
	w := newFakeWorker(t, info(ranks))
	w.answers("/generate", `{"text":"x","meta_info":{"id":"1","prompt_tokens":9,"completion_tokens":2,"cached_tokens":8,"finish_reason":{"type":"stop"}}}`)
	h := start(t, []*fakeWorker{w}, settings{policy: "round-robin"})
	for range ranks {
		h.post("/generate", `{"input_ids":[1,2,3,4,5,6,7,8,9]}`)
	}
	h.awaitIdle()
	resp, got := h.do(http.MethodGet, h.operator+"/metrics", "", "Accept-Encoding", "gzip")
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	assert.Equal(t, ranks, strings.Count(h.scrape(), "warmpath_ttft_seconds_count{"), "each has all its series")
	assert.Less(t, len(got), 1<<20/1000*ranks/2, "events have as many series again")
}
