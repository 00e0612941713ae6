//go:build purego || !(amd64 || arm64)

package radix

func best() level { return levelGo }

func (k *keys) pieces(dst []Hash, tokens []uint32, size int, h uint64) {
	k.piecesGo(dst, tokens, size, h)
}
