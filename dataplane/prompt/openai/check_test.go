package openai_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestCheckRefusesWhatEndsAnEngine(t *testing.T) {
	const gen, comp, chat, other = openai.APIGenerate, openai.APICompletions, openai.APIChat, openai.APIOther
	long := strings.Repeat("7,", 5000)
	tests := []struct {
		api         openai.API
		body, param string // param "": the worker's to judge
	}{
		{gen, `{"input_ids":[5,1023]}`, ""},
		{gen, `{"input_ids":[5,1024]}`, "input_ids"},
		{gen, `{"input_ids":[` + long + `1024,` + long + `7]}`, "input_ids"},
		{gen, `{"input_ids":[4294967295]}`, "input_ids"},
		{gen, `{"input_ids":[[5,6],[5,1024]]}`, "input_ids"},
		{gen, `{"input_ids":[[1024],[5]]}`, "input_ids"},
		{gen, `{"input_ids":[[1024],[5]],"input_ids":[[5]]}`, ""},
		{gen, `{"input_ids":[5],"input_ids":[1024],"text":"x"}`, "input_ids"},
		{comp, `{"prompt":[5,1024]}`, "prompt"},
		{comp, `{"prompt":[[5],[1024]]}`, "prompt"},
		{comp, `{"prompt":[5],"input_ids":[1024]}`, ""},
		{chat, `{"messages":[{}],"input_ids":[1024]}`, "input_ids"},
		{other, `{"input":[5,1024]}`, "input"},
		{other, `{"input":[[5],[1023]]}`, ""},
		{other, `{"input":[[5],[1024]]}`, "input"},
		{other, `{"input":[-1]}`, "input"},
		{other, `{"input":"text of 5000 words"}`, ""},
		{other, `{"input":["5000"]}`, ""},
		{other, `{"input":[{"role":"user","content":[5000]}]}`, ""},
		{other, `{"input_ids":[1024]}`, "input_ids"},
		{other, `{"query":[5],"items":[[6],[1024]]}`, "items"},
		{other, `{"query":[1024],"items":["a"]}`, "query"},
		{gen, `{"text":"x","return_logprob":true,"top_logprobs_num":1024}`, ""},
		{gen, `{"text":"x","return_logprob":true,"top_logprobs_num":1025}`, "top_logprobs_num"},
		{gen, `{"text":["x","y"],"return_logprob":[false,true],"top_logprobs_num":[1,1025]}`, "top_logprobs_num"},
		{gen, `{"text":"x","top_logprobs_num":1025}`, ""},
		{gen, `{"text":"x","return_logprob":true,"logprob_start_len":-1}`, ""},
		{gen, `{"text":"x","return_logprob":true,"logprob_start_len":-2}`, "logprob_start_len"},
		{gen, `{"text":["x","y"],"return_logprob":true,"logprob_start_len":[0,-2]}`, "logprob_start_len"},
		{comp, `{"prompt":"x","logprobs":1025}`, "logprobs"},
		{comp, `{"prompt":"x","logprobs":1e4}`, "logprobs"},
		{comp, `{"prompt":"x","logprobs":"5000"}`, "logprobs"},
		{comp, `{"prompt":"x","logprobs":"50\u00300"}`, "logprobs"},
		{comp, `{"prompt":"x","logprobs":"a\n"}`, ""},
		{comp, `{"prompt":"x","logprobs":true}`, ""},
		{chat, `{"messages":[{}],"logprobs":true,"top_logprobs":1025}`, "top_logprobs"},
		{chat, `{"messages":[{}],"logprobs":true,"top_logprobs":20}`, ""},
		{gen, `{"text":"x","sampling_params":{"top_k":2147483647}}`, ""},
		{gen, `{"text":"x","sampling_params":{"top_k":2147483648}}`, "top_k"},
		{gen, `{"text":"x","sampling_params":{"top_k":1,"top_\u006b":99999999999999999999999999}}`, "top_k"},
		{gen, `{"text":["x","y"],"sampling_params":[{},{"top_k":2147483648}]}`, "top_k"},
		{comp, `{"prompt":"x","top_k":3e9}`, "top_k"},
		{chat, `{"messages":[{}],"top_k":2147483648}`, "top_k"},
		{chat, `{"messages":[{}],"top_k":"all"}`, ""},
		{gen, `{"text":"x","sampling_params":{"n":1000000}}`, "n"},
		{comp, `{"prompt":"x","n":1000000}`, "n"},
		{gen, `{"text":"x","sampling_params":{"stop_token_ids":[5000]}}`, ""},
		{gen, `{"text":"x","sampling_params":{"stop_token_ids":[5000],"min_new_tokens":0}}`, ""},
		{gen, `{"text":"x","sampling_params":{"stop_token_ids":[5,5000],"min_new_tokens":1}}`, "stop_token_ids"},
		{gen, `{"text":"x","sampling_params":{"stop_token_ids":[-5],"min_new_tokens":1}}`, "stop_token_ids"},
		{comp, `{"prompt":"x","stop_token_ids":[5000],"min_tokens":1}`, "stop_token_ids"},
		{gen, `{"text":"x","positional_embed_overrides":[]}`, "positional_embed_overrides"},
		{gen, `{"text":"x","positional_embed_overrides":null}`, ""},
		{gen, `{"text":"x","custom_labels":{"a":"b"}}`, "custom_labels"},
		{gen, `{"text":"x","custom_labels":{}}`, ""},
		{comp, `{"prompt":"x","custom_labels":{"a":"b"}}`, ""},
		{other, `{"query":"","items":["a",""]}`, "items"},
		{other, `{"query":"a","items":[""]}`, ""},
		{other, `{"input":"x","top_logprobs":1025}`, "top_logprobs"},
		{other, `{"messages":[],"top_k":2147483648}`, "top_k"},
	}
	for _, tt := range tests {
		var r openai.Request
		if err := r.Parse(tt.api, []byte(tt.body)); err != nil {
			t.Errorf("Parse(%.80s) = %v", tt.body, err)
			continue
		}
		err := r.Check(openai.Limits{Vocabulary: 1024})
		var e *openai.Error
		switch {
		case tt.param == "" && err != nil:
			t.Errorf("Check(%.80s) = %v, want nil", tt.body, err)
		case tt.param != "" && (!errors.As(err, &e) || e.Status != 400 || e.Param != tt.param):
			t.Errorf("Check(%.80s) = %v, want a 400 of %s", tt.body, err, tt.param)
		}
	}
}

func TestCheckWithoutAVocabulary(t *testing.T) {
	var r openai.Request
	for body, refused := range map[string]bool{
		`{"input_ids":[4000000000]}`:                                       false,
		`{"text":"x","return_logprob":true,"top_logprobs_num":300000}`:     false,
		`{"text":"x","return_logprob":true,"top_logprobs_num":1000000000}`: true,
		`{"text":"x","sampling_params":{"top_k":2147483648}}`:              true,
	} {
		if err := r.Parse(openai.APIGenerate, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(openai.Limits{}); (err != nil) != refused {
			t.Errorf("Check(%s) = %v, want refused %v", body, err, refused)
		}
	}
}
