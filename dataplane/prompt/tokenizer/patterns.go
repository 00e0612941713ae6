package tokenizer

import "strings"

// newScanner is the scanner of a pattern: a hand-written one for the pattern of a known model, else
// a regular expression, which is about ten times slower.
func newScanner(t *unicodeTables, p pattern) (scanner, error) {
	switch {
	case p.String != nil && *p.String != "":
		return literalScanner(*p.String), nil
	case p.Regex != nil:
		if s := newKnownScanner(t, *p.Regex); s != nil {
			return s, nil
		}
		return compileRegex(t, *p.Regex)
	default:
		return nil, unsupported("a pattern that is empty")
	}
}

// Common parts of the patterns of models.
const (
	contractionsPart = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spacesPart       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	upperPart        = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lowerPart        = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	prefixPart       = `[^\r\n\p{L}\p{N}]?`
	restPart         = `| ?[^\s\p{L}\p{N}]+[\r\n]*` + spacesPart
	restSlashPart    = `| ?[^\s\p{L}\p{N}]+[\r\n/]*` + spacesPart

	patternGPT2     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternDeepSeek = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*` + spacesPart
	patternChinese = `[一-龥぀-ゟ゠-ヿ]+`
)

// patternCL100K is the pattern that a cl100k scans.
func patternCL100K(marks bool, number string) string {
	if marks { // Qwen 3.5: marks belong to words
		return contractionsPart + `|` + prefixPart + `[\p{L}\p{M}]+|` + number + `| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + spacesPart
	}
	return contractionsPart + `|` + prefixPart + `\p{L}+|` + number + restPart
}

// patternO200K is the pattern that an o200k scans.
func patternO200K(contractions bool, number string) string {
	suffix := ""
	if contractions {
		suffix = contractionsPart + `?`
	}
	return prefixPart + upperPart + `*` + lowerPart + `+` + suffix +
		`|` + prefixPart + upperPart + `+` + lowerPart + `*` + suffix + `|` + number + restSlashPart
}

// newKnownScanner returns the hand-written scanner of a pattern, or nil.
func newKnownScanner(t *unicodeTables, pattern string) scanner {
	const one, three = `\p{N}`, `\p{N}{1,3}`
	// DeepSeek's file has line breaks where others have escapes.
	switch strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(pattern) {
	case patternGPT2:
		return gpt2{t}
	case patternCL100K(false, three): // Llama 3, GLM-4, Phi-4, SmolLM3
		return cl100k{t, letter, 3}
	case patternCL100K(false, one): // Qwen 2 to 3
		return cl100k{t, letter, 1}
	case patternCL100K(true, one):
		return cl100k{t, letter | mark, 1}
	case patternCL100K(true, three):
		return cl100k{t, letter | mark, 3}
	case patternO200K(true, three): // GPT-OSS, Llama 4
		return o200k{t, true, 3}
	case patternO200K(true, one):
		return o200k{t, true, 1}
	case patternO200K(false, one): // Mistral Nemo and later
		return o200k{t, false, 1}
	case patternO200K(false, three):
		return o200k{t, false, 3}
	case patternDeepSeek:
		return deepSeek{t}
	case patternChinese:
		return chineseScanner{}
	case one:
		return numberScanner{t, 1}
	case three:
		return numberScanner{t, 3}
	default:
		return nil
	}
}

// literalScanner looks for a text.
type literalScanner string

func (l literalScanner) next(_ *budget, s string, i int) (int, bool) {
	switch at := strings.Index(s[i:], string(l)); at {
	case 0:
		return i + len(l), true
	case -1:
		return len(s), false
	default:
		return i + at, false
	}
}

// classScanner is a scanner of single characters of a set, as Digits and WhitespaceSplit use.
type classScanner struct {
	*unicodeTables
	set mask
}

func (c classScanner) next(_ *budget, s string, i int) (int, bool) {
	if m, n := c.at(s, i); m&c.set != 0 {
		return i + n, true
	}
	return c.runNot(s, i, c.set), false
}
