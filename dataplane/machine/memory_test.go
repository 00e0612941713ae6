package machine

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestGroupLimit(t *testing.T) {
	tests := []struct {
		name, groups string
		files        map[string]string
		want         int64
	}{
		{"none", "0::/\n", nil, math.MaxInt64},
		{"no limit", "0::/a\n", map[string]string{"a/memory.max": "max\n"}, math.MaxInt64},
		{"own", "0::/a/b\n", map[string]string{"a/b/memory.max": "300\n", "a/memory.max": "400\n"}, 300},
		{"of the one around", "0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "200\n"}, 200},
		{"container with the host's path", "0::/docker/f00\n", map[string]string{"memory.max": "100\n"}, 100},
		{
			"version 1", "5:cpu:/x\n4:memory:/a\n0::/\n",
			map[string]string{"memory/a/memory.limit_in_bytes": "50\n", "memory/memory.limit_in_bytes": "9223372036854771712\n"},
			50,
		},
		{"nonsense", "memory\n\n::\n", nil, math.MaxInt64},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range test.files {
				file := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := groupLimit(root, test.groups); got != test.want {
				t.Errorf("groupLimit = %d, want %d", got, test.want)
			}
		})
	}
}
