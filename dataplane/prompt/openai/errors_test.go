package openai_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// The text of an error names its field, and once.
func TestErrorsNameTheirFieldOnce(t *testing.T) {
	var r openai.Request
	for field, body := range map[string]string{
		"model": `{"model":7,"prompt":"x"}`, "prompt": `{"prompt":{}}`, "stream": `{"prompt":"x","stream":"maybe"}`,
		"rid": `{"prompt":"x","rid":[7]}`, "routed_dp_rank": `{"prompt":"x","routed_dp_rank":1.5}`, "n": `{"prompt":"x","n":99999999}`,
		"top_k": `{"prompt":"x","top_k":99999999999}`, "logprobs": `{"prompt":"x","logprobs":99999999}`,
	} {
		err := r.Parse(openai.APICompletions, []byte(body))
		if err == nil {
			err = r.Check(openai.Limits{})
		}
		var e *openai.Error
		require.ErrorAs(t, err, &e, body)
		assert.Equal(t, field, e.Param)
		assert.Len(t, regexp.MustCompile(`\b`+field+`\b`).FindAllString(err.Error(), -1), 1, err.Error())
	}
	for _, tt := range [][3]string{
		{"n", "An answer is no request.", "n: An answer is no request."},
		{"n", "Send n requests.", "Send n requests."},
		{"rid", "riders-rid is_rid rid2", "rid: riders-rid is_rid rid2"},
		{"", "Nothing.", "Nothing."},
	} {
		assert.Equal(t, tt[2], openai.BadRequest(tt[0], tt[1]).Error())
	}
}
