package openai

// RawUser returns the JSON of the body's "user", OpenAI's name for whom a request is made for; nil where it has none. It is not
// checked, and valid until the next Parse.
func (r *Request) RawUser() []byte { return r.raw(fieldUser) }
