package responses_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestTurns: a conversation is known as far as all of its turns are.
func TestTurns(t *testing.T) {
	ts := responses.NewTurns(1 << 20)
	ts.Put("a", responses.Turn{Worker: "w1", Input: []byte(`"1"`), Output: []byte(`[2]`)})
	ts.Put("b", responses.Turn{Worker: "w1", Previous: "a", Input: []byte(`"3"`), Output: []byte(`[4]`)})
	ts.Put("c", responses.Turn{Worker: "w1", Previous: "a", Input: []byte(`"5"`), Output: []byte(`[6]`)}) // a branch
	ts.Put("d", responses.Turn{Worker: "w2", Previous: "c", Input: []byte(`"7"`)})
	for id, want := range map[string]string{"a": `"1" [2]`, "b": `"1" [2] "3" [4]`, "c": `"1" [2] "5" [6]`} {
		lists, whole := ts.History(nil, id)
		require.True(t, whole, id)
		require.Equal(t, want, join(lists))
	}
	for _, id := range []string{"d", "e"} {
		_, whole := ts.History(nil, id)
		require.False(t, whole, id)
	}
	require.Equal(t, "w2", ts.Worker("d"))
	require.Empty(t, ts.Worker("e"))
}

func join(lists [][]byte) string {
	parts := make([]string, len(lists))
	for i, l := range lists {
		parts[i] = string(l)
	}
	return strings.Join(parts, " ")
}

// TestTurnsAreBounded: the least used go, and a conversation that goes on keeps its beginning.
func TestTurnsAreBounded(t *testing.T) {
	const limit = 1 << 20
	ts := responses.NewTurns(limit)
	text := []byte(`"` + strings.Repeat("x", 5000) + `"`)
	ts.Put("0", responses.Turn{Input: text, Output: text})
	for i := range 1000 {
		ts.Put(fmt.Sprint("other", i), responses.Turn{Input: text, Output: text})
		if i%10 == 0 && i < 300 {
			ts.Put(strconv.Itoa(i/10+1), responses.Turn{Previous: strconv.Itoa(i / 10), Input: []byte(`"a"`), Output: []byte(`[]`)})
			_, whole := ts.History(nil, strconv.Itoa(i/10+1))
			require.True(t, whole, "turn %d", i/10+1)
		}
		_, bytes := ts.Size()
		require.LessOrEqual(t, bytes, limit)
	}
	turns, _ := ts.Size()
	require.Less(t, turns, 110)
	_, whole := ts.History(nil, "30")
	require.False(t, whole)
	ts.Put("long", responses.Turn{Worker: "w", Input: []byte(strings.Repeat("x", limit))})
	require.Equal(t, "w", ts.Worker("long"))
}
