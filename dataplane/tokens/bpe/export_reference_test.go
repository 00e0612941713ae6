//go:build tokenizers

package bpe

// ForgetPieces empties the cache.
func (t *Tokenizer) ForgetPieces() { t.model.cache = newCache(cacheBits) }
