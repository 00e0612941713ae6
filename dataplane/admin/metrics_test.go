package admin_test

import (
	"regexp"
	"runtime"
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
