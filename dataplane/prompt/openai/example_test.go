package openai_test

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func ExampleRequest_Parse() {
	body := []byte(`{"model":"llama","prompt":[1,2,3],"stream":true}`)
	var r openai.Request
	if err := r.Parse(openai.APICompletions, body); err != nil {
		fmt.Println(err)
		return
	}
	pieces := openai.SpliceField(nil, body, openai.AppendRIDField(nil, openai.AppendRID(nil, 1, 2)))
	fmt.Println(r.Model, r.InputIDs, r.Stream)
	fmt.Printf("%s\n", slices.Concat(pieces...))
	// Output:
	// llama [1 2 3] true
	// {"model":"llama","prompt":[1,2,3],"stream":true,"rid":"wp-000000000000000100000002"}
}

func ExampleUsageScanner() {
	var s openai.UsageScanner
	s.Reset(openai.APIChat, true)
	for _, piece := range []string{
		"data: {\"choices\":[],\"usage\":{\"prompt_tok", "ens\":10,\"completion_tokens\":2,",
		"\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n", "data: [DONE]\n\n",
	} {
		_, _ = s.Write([]byte(piece))
	}
	u := s.Usage()
	fmt.Println(u.PromptTokens, u.CachedTokens, u.CompletionTokens)
	// Output: 10 8 2
}
