package worker

import (
	"hash/fnv"
	"strconv"

	"github.com/valyala/fastjson"
)

// processOf returns a number for the process that wrote a server_info, 0 where nothing in it
// identifies a process. SGLang 0.5.23 has the durations of its start in nanoseconds and a random
// seed; both survive a change of weights. Two processes of an older release with a fixed seed
// are equal if their arguments are.
func processOf(v *fastjson.Value) uint64 {
	h, known := fnv.New64a(), false
	for _, name := range []string{"startup_time", "random_seed", "launch_command"} {
		if f := v.Get(name); f != nil && f.Type() != fastjson.TypeNull {
			known = true
			_, _ = h.Write(f.MarshalTo([]byte(name)))
		}
	}
	if !known {
		return 0
	}
	for _, name := range []string{"served_model_name", "tokenizer_path", "version"} { // no update changes them
		_, _ = h.Write(strconv.AppendQuote([]byte(name), string(v.GetStringBytes(name))))
	}
	for _, name := range []string{"port", "dp_size", "tp_size"} {
		_, _ = h.Write(strconv.AppendInt([]byte(name), v.GetInt64(name), 10))
	}
	return max(h.Sum64(), 1)
}
