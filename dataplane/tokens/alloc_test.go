//go:build !race

package tokens_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/openai"
	"github.com/warmpath/warmpath/dataplane/tokens"
)

func TestHitDoesNotAllocate(t *testing.T) {
	s := newSource(t, tokens.Config{Fetch: &worker{}})
	req := parse(t, openai.APIChat, `{"model":"m","messages":[{}],"tools":[],"chat_template_kwargs":{}}`)
	if _, err := s.Prompt(nil, "http://a", req); err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(100, func() {
		if _, err := s.Prompt(nil, "http://a", req); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("a hit allocates %v times, want 0", n)
	}
}

func TestShardsAreApart(t *testing.T) {
	if tokens.ShardSize%64 != 0 {
		t.Errorf("a shard is %d bytes, want a multiple of 64", tokens.ShardSize)
	}
}
