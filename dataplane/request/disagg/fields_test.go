package disagg

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestAppendFields(t *testing.T) {
	tests := []struct {
		name  string
		host  string
		rooms []uint64
		batch bool
		want  string
	}{
		{"one", "gpu1", []uint64{7}, false, `"bootstrap_host":"gpu1","bootstrap_port":8998,"bootstrap_room":7`},
		{"IPv6", "fe80::1", []uint64{7}, false, `"bootstrap_host":"[fe80::1]","bootstrap_port":8998,"bootstrap_room":7`},
		{"batch of one", "a", []uint64{1<<63 - 1}, true, `"bootstrap_host":["a"],"bootstrap_port":[8998],"bootstrap_room":[9223372036854775807]`},
		{"batch", "a", []uint64{1, 2}, true, `"bootstrap_host":["a","a"],"bootstrap_port":[8998,8998],"bootstrap_room":[1,2]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, string(AppendFields(nil, tt.host, 8998, tt.rooms, tt.batch)))
		})
	}
	assert.Equal(t, `"routed_dp_rank":3`, string(AppendRank(nil, 3)))
	assert.Equal(t, `"disagg_prefill_dp_rank":1`, string(AppendPrefillRank(nil, 1)))
}

func TestAppendFieldsAllocates(t *testing.T) {
	rooms, dst := []uint64{1, 2, 3}, make([]byte, 0, 256)
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { dst = AppendFields(dst[:0], "10.0.0.17", 8998, rooms, true) }), 1.0)
}

// FuzzFields: a reader of JSON finds the fields again, for any host and body of a client.
func FuzzFields(f *testing.F) {
	f.Add("gpu1", uint16(8998), uint64(7), 1, false, `{"text":"x"}`)
	f.Add("fe80::1", uint16(1), uint64(1<<63-1), 3, true, ` { "bootstrap_room" : null , "text":"}"} `)
	f.Add("a\"b", uint16(0), uint64(0), 2, true, `{}`)
	f.Fuzz(func(t *testing.T, host string, port uint16, room uint64, n int, batch bool, body string) {
		var client map[string]any
		if json.Unmarshal([]byte(body), &client) != nil || client == nil || n < 1 || n > 100 {
			t.Skip()
		}
		rooms := make([]uint64, n)
		for i := range rooms {
			rooms[i] = (room + uint64(i)) >> 11 // what a float64 can hold
		}
		var whole []byte
		for _, part := range openai.SpliceField(nil, []byte(body), AppendFields(nil, host, int(port), rooms, batch)) {
			whole = append(whole, part...)
		}
		var got map[string]any
		require.NoError(t, json.Unmarshal(whole, &got), "%s", whole)
		raw, err := json.Marshal(string(AppendHost(nil, host)))
		require.NoError(t, err)
		var wantHost any
		require.NoError(t, json.Unmarshal(raw, &wantHost))
		want := func(v func(i int) any) any {
			if !batch {
				return v(0)
			}
			list := []any{}
			for i := range rooms {
				list = append(list, v(i))
			}
			return list
		}
		client["bootstrap_host"] = want(func(int) any { return wantHost })
		client["bootstrap_port"] = want(func(int) any { return float64(port) })
		client["bootstrap_room"] = want(func(i int) any { return float64(rooms[i]) })
		require.Equal(t, client, got)
	})
}
