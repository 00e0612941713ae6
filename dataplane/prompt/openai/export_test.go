package openai

// MaxDepth and TailSize let tests use the bounds.
const (
	MaxDepth = maxDepth
	TailSize = tailSize
)

// Valid is the walk alone: whether body is JSON, of any type.
func Valid(body []byte) error {
	i, err := skipValue(body, skipSpace(body, 0), 0)
	if err != nil {
		return err
	}
	if i = skipSpace(body, i); i < len(body) {
		return errUnexpected(body, i, "the end")
	}
	return nil
}
