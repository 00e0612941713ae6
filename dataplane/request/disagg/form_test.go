package disagg

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestFormAt has answers as SGLang 0.5.23 writes them, and of other engines where they differ.
func TestFormAt(t *testing.T) {
	for _, tt := range []struct{ path, good, bad string }{
		{"/v1/embeddings", `{"data":[{"embedding":[0.5],"index":0,"object":"embedding"}],"model":"m","object":"list"}`, `{"input":"x","model":"m"}`},
		{"/v1/classify", `{"id":"classify-1","object":"list","created":1,"model":"m","data":[{"index":0,"label":null,"probs":[1]}]}`, `{"data":null}`},
		{"/v1/classify", `{"data":[{"index":0,"label":"a","probs":[0.5],"num_classes":1}],"usage":{}}`, `{"data":[],"usage":{"prompt_tokens":1}}`},
		{"/v1/score", `{"scores":[[0.1,0.9]],"model":"m","object":"scoring"}`, `{"query":"a","items":["b"]}`},
		{"/v1/score", `{"id":"score-1","object":"list","data":[{"index":0,"score":0.5}],"usage":{}}`, `[]`},
		{"/v1/score", `{"scores":[],"pooled_hidden_states":null,"model":"m","usage":{"prompt_tokens":0},"object":"scoring"}`, `{"scores":[]}`},
		{"/v1/embeddings", `{"data":[{"embedding":"AAAA","index":0}],"usage":null}`, `{"data":[],"usage":{"prompt_tokens":1}}`},
		{"/v1/embeddings", `{"data":[{"embedding":[0.5]}]}`, `{"data":[{"embedding":[],"index":0}]}`},
		{"/v1/embeddings", `{"data":[{"embedding":[0.5]}]}`, `{"data":[{}]}`},
		{"/rerank", `{"results":[{"index":0,"relevance_score":0.9}]}`, `{"results":[]}`},
		{"/tokenize", `{"tokens":[],"count":0,"max_model_len":8}`, `{"tokens":[]}`},
		{"/v1/rerank", `[{"score":0.5,"document":"a","index":0}]`, `{"query":"a","documents":["b"]}`},
		{"/rerank", `{"id":"rerank-1","results":[{"index":0,"relevance_score":0.9}]}`, `[]`},
		{"/rerank", `[{"index":0,"score":null}]`, `[{}]`},
		{"/encode", `{"embedding":[0.1],"meta_info":{"id":"a"}}`, `{"text":"a"}`},
		{"/classify", `[{"embedding":[0.1],"meta_info":{}}]`, `"ready"`},
		{"/tokenize", `{"tokens":[1,2],"count":2,"max_model_len":8}`, `{"prompt":"x"}`},
		{"/v1/tokenize", `{"tokens":[[1],[2]],"count":[1,1]}`, `{"tokens":null}`},
		{"/detokenize", `{"text":"a"}`, `{"tokens":[1]}`},
		{"/v1/detokenize", `{"prompt":"a"}`, `null`},
		{"/v1/messages/count_tokens", `{"input_tokens":9}`, `{"messages":[]}`},
	} {
		form := FormAt([]byte(tt.path))
		v, _ := JudgeAnswer(form, []byte(tt.good), true, nil)
		assert.Equal(t, Good, v, tt.good)
		for _, bad := range []string{tt.bad, tt.good[:len(tt.good)-1], `{}`, `[{}]`, `null`, `ready`, ``, ` `} {
			v, f := JudgeAnswer(form, []byte(bad), true, nil)
			assert.Equal(t, Failed, v, "%s: %s", tt.path, bad)
			assert.Equal(t, NoAnswer, f, "%s: %s", tt.path, bad)
		}
		for cut := range tt.good {
			v, _ := JudgeAnswer(form, []byte(tt.good[:cut]), false, nil)
			assert.NotEqual(t, Failed, v, "%s", tt.good[:cut])
		}
	}
}
