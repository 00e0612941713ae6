package trace_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/trace"
)

func TestReadSessions(t *testing.T) {
	got, err := trace.ReadSessions(strings.NewReader(`{"session":"a","model":"m","tools":100,"system":null,"block_size":32,"turns":[{"t":0,"think":0,"api":1.5,"input":100,"output":7,"of":-1,"keep":9,"blocks":3},`+
		`{"t":4,"think":2.5,"input":90,"output":0,"of":0,"keep":5,"agent":2}]}`+"\n\n"), 0)
	require.NoError(t, err)
	assert.Equal(t, []trace.Session{{Name: "a", Model: "m", Tools: 100, Block: 32, Turns: []trace.Turn{
		{Served: 1500 * time.Millisecond, Input: 100, Output: 7, Of: -1},
		{At: 4 * time.Second, Think: 2500 * time.Millisecond, Input: 90, Of: 0, Keep: 2, Agent: 2},
	}}}, got, "a block that one of the two prompts has only in part is not kept")
}

func TestReadRecordedSessions(t *testing.T) {
	f, err := os.Open("testdata/sessions.jsonl")
	require.NoError(t, err)
	defer f.Close()
	sessions, err := trace.ReadSessions(f, 0)
	require.NoError(t, err)
	require.Len(t, sessions, 6)
	turns := 0
	for i := range sessions {
		s := &sessions[i]
		turns += len(s.Turns)
		for k, step := range s.Steps(time.Minute) {
			require.Less(t, step.After, k)
			require.GreaterOrEqual(t, step.Wait, time.Duration(0))
			require.LessOrEqual(t, step.Wait, time.Minute)
			switch of := step.After; {
			case of < 0:
				assert.Less(t, s.Turns[k].At, 5*time.Second, "only a session's begin waits for no answer")
			case s.Turns[of].Agent != s.Turns[k].Agent:
				assert.Zero(t, s.Turns[of].Agent)
			}
		}
	}
	assert.Equal(t, 101, turns)
}

// A session of which every kind of step is known.
func TestSteps(t *testing.T) {
	sec := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	s := trace.Session{Turns: []trace.Turn{
		{At: 0, Served: sec(4)},
		{At: 0, Served: sec(9), Agent: 1},                // with the session
		{At: sec(6), Served: sec(2), Think: sec(2)},      // after turn 0
		{At: sec(10), Served: sec(1), Agent: 2},          // 2 s after turn 2
		{At: sec(12), Think: sec(3), Agent: 1},           // after turn 1
		{At: sec(900), Think: sec(892), Served: sec(20)}, // after turn 2, cut
		{At: sec(901), Agent: 3},                         // turn 5 is under way: after turn 2
	}}
	assert.Equal(t, []trace.Step{
		{After: -1}, {After: -1}, {After: 0, Wait: sec(2)}, {After: 2, Wait: sec(2)}, {After: 1, Wait: sec(3)}, {After: 2, Wait: sec(300)}, {After: 2, Wait: sec(300)},
	}, s.Steps(sec(300)))
}

func TestReadSessionsRefuses(t *testing.T) {
	turn := func(fields string) string { return `{"turns": [{` + fields + `}]}` }
	for name, line := range map[string]string{
		"no JSON":          "{",
		"no object":        "[1]",
		"no turns":         `{"turns": []}`,
		"negative tools":   `{"tools": -1, "turns": [{"t": 0, "think": 0, "input": 1, "output": 1}]}`,
		"no block":         `{"block_size": 0, "turns": [{"t": 0, "think": 0, "input": 1, "output": 1}]}`,
		"no time":          turn(`"think": 0, "input": 1, "output": 1`),
		"negative pause":   turn(`"t": 0, "think": -1, "input": 1, "output": 1`),
		"endless pause":    turn(`"t": 0, "think": 1e300, "input": 1, "output": 1`),
		"pause in words":   turn(`"t": 0, "think": "long", "input": 1, "output": 1`),
		"no prompt":        turn(`"t": 0, "think": 0, "input": 0, "output": 1`),
		"endless prompt":   turn(`"t": 0, "think": 0, "input": 1e12, "output": 1`),
		"of itself":        turn(`"t": 0, "think": 0, "input": 1, "output": 1, "of": 0`),
		"of nothing":       turn(`"t": 0, "think": 0, "input": 1, "output": 1, "of": -2`),
		"back in time":     `{"turns": [{"t": 1, "think": 0, "input": 1, "output": 1}, {"t": 0, "think": 0, "input": 1, "output": 1}]}`,
		"negative agent":   turn(`"t": 0, "think": 0, "input": 1, "output": 1, "agent": -1`),
		"a trace's format": `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}`,
	} {
		_, err := trace.ReadSessions(strings.NewReader("\n"+line), 0)
		require.ErrorIs(t, err, trace.ErrTrace, name)
		assert.ErrorContains(t, err, "line 2", name)
	}
	_, err := trace.ReadSessions(strings.NewReader("\n"), 0)
	require.ErrorIs(t, err, trace.ErrTrace)
}
