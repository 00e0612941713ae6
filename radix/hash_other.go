//go:build purego || !(amd64 || arm64)

package radix

func bestHashLevel() hashLevel { return levelGo }

func hashPieces(k *hashKeys, dst []Hash, tokens []uint32, size int, h uint64) {
	hashPiecesGo(k, dst, tokens, size, h)
}
