package clientkey

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzUseMessage: bytes are refused, or a message that says the same when it is written again.
func FuzzUseMessage(f *testing.F) {
	m := useMessage{id: []byte("router"), number: 7, flags: flagWhole | flagFull, names: []useEntry{
		{name: []byte("alice"), inFlight: 3, requests: 12, tokens: -4.5, missingRequests: 2.25, missingTokens: 1e9}, {name: []byte("b")},
	}}
	f.Add(m.append(nil))
	m.names, m.flags = nil, flagLast
	f.Add(m.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again useMessage
		if got.decode(data) != nil {
			return
		}
		require.NoError(t, again.decode(got.append(nil)))
		require.Equal(t, got, again)
	})
}
