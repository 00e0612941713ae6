package worker_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// FuzzParseModels holds the names of a list to those that encoding/json reads from it.
func FuzzParseModels(f *testing.F) {
	for _, body := range []string{
		`{"object":"list","data":[{"id":"tiny","parent":null,"max_model_len":2048},{"id":"sql","parent":"tiny","max_model_len":null}]}`,
		`{"data":[{"id":"a"},{"id":"b"},{}]}`, `{"data":7}`, `[]`, `{"data":[{"id":1,"parent":""}]}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		bases, adapters, _, err := worker.ParseModels(body)
		var want struct {
			Data []struct {
				ID     string  `json:"id"`
				Parent *string `json:"parent"`
			} `json:"data"`
		}
		if err != nil || json.Unmarshal(body, &want) != nil {
			return // encoding/json wants all types to be right
		}
		var wantBases, wantAdapters []string
		for _, m := range want.Data {
			switch {
			case m.ID == "":
			case m.Parent != nil && *m.Parent != "":
				wantAdapters = append(wantAdapters, m.ID)
			default:
				wantBases = append(wantBases, m.ID)
			}
		}
		if ambiguous(body) {
			return
		}
		require.Equal(t, wantBases, bases)
		require.Equal(t, wantAdapters, adapters)
	})
}

// ambiguous reports whether two readers may see different things: keys that differ in case or
// stand twice, and text that is no UTF-8.
func ambiguous(body []byte) bool {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return true
	}
	once, err := json.Marshal(v)
	if err != nil {
		return true
	}
	var exact struct{ Data []map[string]any }
	_ = json.Unmarshal(body, &exact)
	top, _ := v.(map[string]any)
	data, _ := top["data"].([]any)
	if len(data) != len(exact.Data) {
		return true
	}
	for i, m := range exact.Data {
		if one, _ := data[i].(map[string]any); len(one) != len(m) {
			return true
		}
		for key := range m {
			switch key {
			case "id", "parent", "max_model_len", "object", "created", "owned_by", "root":
			default:
				return true
			}
		}
	}
	return len(once) != len(compacted(body))
}

func compacted(body []byte) []byte {
	var raw json.RawMessage
	_ = json.Unmarshal(body, &raw)
	out, _ := json.Marshal(raw)
	return out
}

// FuzzProcess: a process is identified by its start, and by nothing that changes later.
func FuzzProcess(f *testing.F) {
	f.Add(17.25, int64(5), "tiny", 0.5)
	f.Fuzz(func(t *testing.T, took float64, seed int64, name string, busy float64) {
		quoted, err := json.Marshal(name)
		require.NoError(t, err)
		describe := func(took float64, seed int64, busy float64) uint64 {
			raw, err := json.Marshal(took)
			if err != nil {
				t.Skip() // no JSON number
			}
			info, err := worker.ParseInfo(fmt.Appendf(nil, `{"served_model_name":%s,"startup_time":{"tokenizer_e2e":%s},"random_seed":%d,
				"internal_states":[{"last_gen_throughput":%d}]}`, quoted, raw, seed, int64(busy)), "h")
			require.NoError(t, err)
			return info.Process
		}
		one := describe(took, seed, 0)
		require.NotZero(t, one)
		require.Equal(t, one, describe(took, seed, busy))
		if took+1 != took {
			require.NotEqual(t, one, describe(took+1, seed, busy))
		}
		require.NotEqual(t, one, describe(took, seed+1, busy))
	})
}
