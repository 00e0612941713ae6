package discover

import (
	"bytes"
	"testing"
)

// The oracle of FuzzEtcdPrefix: a key is in the range if and only if it begins with the prefix.
func FuzzEtcdPrefix(f *testing.F) {
	for _, c := range [][2]string{{"/w/", "/w/a"}, {"/w/", "/w0"}, {"a\xff", "a\xff\xff"}, {"a\xff", "b"}, {"\xff", "\xff\xff"}, {"\xff\xff", "\xff"}} {
		f.Add([]byte(c[0]), []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, prefix, key []byte) {
		if len(prefix) == 0 || len(key) == 0 {
			return // etcd has no such keys
		}
		r := etcdPrefix(string(prefix))
		in := bytes.Compare(key, r.Key) >= 0 && (bytes.Equal(r.End, []byte{0}) || bytes.Compare(key, r.End) < 0)
		if want := bytes.HasPrefix(key, prefix); in != want {
			t.Errorf("%q in the range of %q: %t, want %t", key, prefix, in, want)
		}
	})
}
