// Package tokenizer computes the tokens of a text exactly as an engine's tokenizer does: byte-pair
// encoding from the tokenizer.json of HuggingFace's library tokenizers.
//
//	tok, err := tokenizer.Load(file)
//	ids, err = tok.Append(ids[:0], text)
//
// # Supported constructs
//
// Added tokens, normalizers (NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace),
// pre-tokenizers (ByteLevel, Split in all behaviors, Digits, Punctuation, WhitespaceSplit,
// Metaspace), the model BPE with byte_fallback, unk, fuse_unk and ignore_merges, and
// post-processors. Models such as Llama 3, Qwen, GPT-OSS, DeepSeek V3, Mistral and Gemma need no
// more. Unigram and WordPiece, dropout, word prefixes and suffixes are not computed. A file with
// these, with an option that is unknown here, or with a regular expression that regex_parse.go does
// not read, is refused by an error that names the construct. Truncation and padding are not
// applied, as engines switch them off.
//
// # Equality
//
// The reference is version 0.23 of the Python library. The tables in unicode.txt were made from its
// answers, character by character: its classes of characters (Unicode 16), its lower case and its
// normalization (Unicode 9) are of other versions than Go's. `make test-tokenizers` compares real
// tokenizers on some 19,000 documents. An engine may change a tokenizer after it has read the file:
// transformers 5 replaces the pre-tokenizer of models of the class LlamaTokenizer, and SGLang
// restores some of them. A caller that relies on equality should compare some ids with the engine's
// own.
//
// # Speed
//
// Hand-written scanners (patterns.go) match the patterns of known models; a backtracking matcher in
// the manner of Oniguruma matches others. Merging takes n log n. A bounded cache of about 6 MiB
// keeps the tokens of pieces of text. A warm call allocates nothing.
//
// # Concurrency
//
// A Tokenizer is read-only but for its cache, which is lock-free: a slot carries a version, and a
// reader that sees it change discards its read. All methods may be called concurrently.
//
// # Ownership
//
// Texts are not kept: the cache copies its pieces. Results are appended to the caller's slice.
//
// # Errors
//
// ErrUnsupported is wrapped where a file has a construct that is not computed here. ErrLimit is
// wrapped where a file is larger than any real one, and returned where a text takes more work under
// its tokenizer than under real ones: normalizers that multiply it, regular expressions with more
// steps than its length allows.
package tokenizer
