//go:build tokenizers

package tokenizer

// ForgetPieces empties the cache.
func (t *Tokenizer) ForgetPieces() { t.model.cache = newCache(cacheBits) }
