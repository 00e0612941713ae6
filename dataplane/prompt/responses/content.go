package responses

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// developerLabel is the line that SGLang puts before a developer's text, since templates know
// system messages only.
const developerLabel = "Developer instructions:"

type part struct {
	raw          []byte
	kind, text   []byte
	image, level []byte // image_url and detail
	object       bool
	hasText      bool // a member "text", which may be null
	escaped      bool // a key has escapes
}

func (p *part) read(raw []byte) {
	*p = part{raw: raw, object: openai.IsObject(raw)}
	if !p.object {
		return
	}
	_, _ = openai.Members(raw, 0, func(key []byte, lo, hi int) {
		v := openai.Present(raw[lo:hi])
		switch string(key) {
		case "type":
			p.kind = v
		case "text":
			p.text, p.hasText = v, true
		case "image_url":
			p.image = v
		case "detail":
			p.level = v
		default:
			p.escaped = p.escaped || bytes.IndexByte(key, '\\') >= 0
		}
	})
}

// isTextual reports whether SGLang writes the part anew as a text.
func (p *part) isTextual() bool {
	return (openai.Is(p.kind, "input_text") || openai.Is(p.kind, "output_text")) && !p.hasText
}

// hasText reports whether a part of a content has a text (label_developer_content).
func hasText(content []byte) (found bool) {
	_, _ = openai.Elements(content, 0, func(lo, hi int) {
		var p part
		p.read(content[lo:hi])
		found = found || p.object && openai.IsString(p.text)
	})
	return found
}

// appendContent appends the content of a message: a text, or a list of parts.
func appendContent(dst, content []byte, developer, sums bool) ([]byte, error) {
	if openai.IsString(content) {
		if !developer {
			return append(dst, content...), nil
		}
		dst = append(dst, `"`+developerLabel+`\n`...)
		return append(dst, content[1:]...), nil
	}
	dst = append(dst, '[')
	start := len(dst)
	label := developer
	if developer && !hasText(content) {
		dst = append(dst, `{"type":"text","text":"`+developerLabel+`"}`...)
		label = false
	}
	var err error
	_, _ = openai.Elements(content, 0, func(lo, hi int) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		var p part
		p.read(content[lo:hi])
		if p.escaped && err == nil {
			err = unsupported("a key with escapes")
		}
		if sums && p.object && !openai.IsString(p.text) {
			dst = p.appendSum(dst)
			return
		}
		dst = p.appendTo(dst, label && openai.IsString(p.text))
		label = label && !openai.IsString(p.text)
	})
	return append(dst, ']'), err
}

// appendTo appends the part as a chat has it (_normalize_response_content_part_for_chat).
func (p *part) appendTo(dst []byte, label bool) []byte {
	switch {
	case !p.object:
		return append(dst, p.raw...)
	case openai.Is(p.kind, "input_text"), openai.Is(p.kind, "output_text"):
		dst = append(dst, `{"type":"text","text":`...)
		switch {
		case label:
			dst = append(dst, `"`+developerLabel+`\n`...)
			dst = append(dst, p.text[1:]...)
		case !p.hasText:
			dst = append(dst, `""`...)
		default:
			dst = append(dst, openai.OrNull(p.text)...)
		}
		return append(dst, '}')
	case openai.Is(p.kind, "input_image"):
		return p.appendImage(dst)
	case openai.Is(p.kind, "image_url") && (openai.IsString(p.image) || openai.IsObject(p.image)):
		return p.appendImageURL(dst)
	case label:
		return p.appendLabelled(dst)
	}
	return append(dst, p.raw...)
}

// appendSum appends a part without a text as a checksum: its text stands for it in routing.
func (p *part) appendSum(dst []byte) []byte {
	dst = append(dst, `{"type":"image_url","image_url":{"url":"`...)
	return append(openai.AppendChecksum(dst, p.raw), `"}}`...)
}

// appendImage appends an image of the Responses API.
func (p *part) appendImage(dst []byte) []byte {
	dst = append(dst, `{"type":"image_url","image_url":`...)
	if openai.IsObject(p.image) {
		dst = appendDetailed(dst, p.image, p.detail())
	} else {
		dst = p.appendURL(dst)
	}
	for _, name := range [...]string{"min_dynamic_patch", "max_dynamic_patch", "max_long_side_pixel"} {
		if v := openai.Member(p.raw, name); v != nil && openai.Member(p.image, name) == nil {
			dst = openai.AppendMember(dst[:len(dst)-1], name, v)
			dst = append(dst, '}')
		}
	}
	return append(dst, '}')
}

func (p *part) appendImageURL(dst []byte) []byte {
	dst = append(dst, `{"image_url":`...)
	if openai.IsString(p.image) {
		dst = p.appendURL(dst)
	} else {
		dst = appendDetailed(dst, p.image, p.detail())
	}
	_, _ = openai.Members(p.raw, 0, func(key []byte, lo, hi int) {
		if string(key) != "image_url" {
			dst = openai.AppendMember(dst, string(key), p.raw[lo:hi])
		}
	})
	return append(dst, '}')
}

// appendURL appends an image's object of a URL alone.
func (p *part) appendURL(dst []byte) []byte {
	dst = openai.AppendMember(append(dst, '{'), "url", openai.OrNull(p.image))
	return append(openai.AppendMember(dst, "detail", p.detail()), '}')
}

// detail is the detail of an image, "auto" where none is named.
func (p *part) detail() []byte {
	if truthy(p.level) {
		return p.level
	}
	return []byte(`"auto"`)
}

// appendDetailed appends an image's object with a detail, where it has none.
func appendDetailed(dst, image, detail []byte) []byte {
	if truthy(openai.Member(image, "detail")) {
		return append(dst, image...)
	}
	dst = openai.AppendMember(append(dst, '{'), "detail", detail)
	_, _ = openai.Members(image, 0, func(key []byte, lo, hi int) {
		if string(key) != "detail" {
			dst = openai.AppendMember(dst, string(key), image[lo:hi])
		}
	})
	return append(dst, '}')
}

// appendLabelled appends a part of another kind with the label before its text.
func (p *part) appendLabelled(dst []byte) []byte {
	dst = append(dst, `{"text":"`+developerLabel+`\n`...)
	dst = append(dst, p.text[1:]...)
	_, _ = openai.Members(p.raw, 0, func(key []byte, lo, hi int) {
		if string(key) != "text" {
			dst = openai.AppendMember(dst, string(key), p.raw[lo:hi])
		}
	})
	return append(dst, '}')
}
