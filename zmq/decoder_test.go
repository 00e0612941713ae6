//go:build !race || soak

package zmq_test

import "testing"

func TestDecoder(t *testing.T) {
	for _, stream := range streams() {
		for seed := range uint64(5) { // the first time whole
			requireDecodes(t, []string{"", "t", "tea", answersTopic}[seed%4], stream, seed)
		}
	}
}
