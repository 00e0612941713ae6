package openai_test

import (
	"bytes"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// naive is the obvious reading of a body, by encoding/json into maps.
type naive struct {
	ok                         bool
	model                      string
	stream, batch, hasText     bool
	blank                      bool // some text of the prompt is empty
	text                       string
	ids                        []uint32
	prompts                    int
	messages, tools            string
	multimodal                 bool
	salt, lora, rid, sessionID string
	rids                       []string
	wholeRID                   bool
}

var byteOrder = []byte("\ufeff")

// validJSON is the oracle of validity: encoding/json and UTF-8, with the depth that we allow.
func validJSON(body []byte) bool {
	return json.Valid(bytes.TrimPrefix(body, byteOrder)) && utf8.Valid(body)
}

// depthOf counts brackets outside strings of a valid document.
func depthOf(body []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, byteOrder)))
	depth := 0
	for {
		t, err := dec.Token()
		if err != nil {
			return deepest
		}
		if d, ok := t.(json.Delim); ok {
			if strings.ContainsRune("{[", rune(d)) {
				depth++
				deepest = max(deepest, depth)
			} else {
				depth--
			}
		}
	}
}

// members reads an object to raw members, the last of equal keys winning.
func members(raw []byte) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return nil, false
	}
	for k, v := range m {
		if string(v) == "null" {
			delete(m, k)
		}
	}
	return m, true
}

func naiveParse(api openai.API, body []byte) (n naive) {
	if !validJSON(body) {
		return n
	}
	m, ok := members(bytes.TrimPrefix(body, byteOrder))
	if !ok {
		return n
	}
	ok = str(m["model"], &n.model) && boolean(m["stream"], &n.stream) && strOrList(m["lora_path"], &n.lora) &&
		strOrList(m["cache_salt"], &n.salt) && strOrList(m["extra_key"], new(string)) &&
		naiveRID(m["rid"], &n) && integer(m["priority"]) && integer(m["routed_dp_rank"]) &&
		str(m["session_id"], &n.sessionID)
	if ok && m["routed_dp_rank"] == nil {
		ok = integer(m["data_parallel_rank"])
	}
	if !ok {
		return n
	}
	if p, isObj := members(m["session_params"]); isObj && n.sessionID == "" {
		str(p["id"], &n.sessionID)
	}
	n.prompts = 1
	switch api {
	case openai.APIGenerate:
		n.ok = n.generate(m)
	case openai.APICompletions:
		n.ok = m["prompt"] != nil && n.prompt(m["prompt"], true, true) && !n.blank
	case openai.APIChat:
		n.ok = n.chat(m)
	default:
		n.ok = true
	}
	return n
}

func (n *naive) generate(m map[string]json.RawMessage) bool {
	p, _ := members(m["session_params"])
	if p["id"] != nil && (m["session_id"] != nil || !str(p["id"], new(string))) {
		return false
	}
	if p["rid"] != nil && !str(p["rid"], new(string)) || p["offset"] != nil && !integer(p["offset"]) {
		return false
	}
	media := false
	for _, k := range []string{"image_data", "audio_data", "video_data"} {
		v := m[k]
		var l []any
		media = media || v != nil && (json.Unmarshal(v, &l) != nil || len(l) > 0)
	}
	ids := m["input_ids"]
	var l []any
	session := ids != nil && json.Unmarshal(ids, &l) == nil && len(l) == 0 && n.sessionID != ""
	if session {
		ids = nil
	}
	if m["text"] != nil && !n.prompt(m["text"], true, false) {
		return false
	}
	if ids != nil && !n.prompt(ids, false, true) {
		return false
	}
	n.multimodal = media || session || m["input_embeds"] != nil
	if m["text"] == nil && ids == nil && m["input_embeds"] == nil && !session {
		return false
	}
	if n.blank && ids == nil && !n.multimodal && n.sessionID == "" {
		return false
	}
	sp := m["sampling_params"]
	return sp == nil || sp[0] == '{' || naiveSamplingList(sp)
}

func naiveSamplingList(raw json.RawMessage) bool {
	var l []json.RawMessage
	return raw[0] == '[' && json.Unmarshal(raw, &l) == nil && (len(l) == 0 || l[0][0] == '{')
}

func (n *naive) chat(m map[string]json.RawMessage) bool {
	var msgs []json.RawMessage
	if m["messages"] == nil || json.Unmarshal(m["messages"], &msgs) != nil || len(msgs) == 0 {
		return false
	}
	for _, raw := range msgs {
		if raw[0] != '{' {
			return false
		}
		// Every "content" counts, not the last only: on doubt a message is multimodal.
		n.multimodal = n.multimodal || naiveMedia(raw)
	}
	n.messages, n.tools = string(m["messages"]), string(m["tools"])
	return m["input_ids"] == nil || (n.prompt(m["input_ids"], false, true) && !n.batch)
}

// naiveMedia walks a message by tokens, since a map would hide repeated keys.
func naiveMedia(raw []byte) bool {
	for _, content := range valuesOf(raw, "content") {
		var parts []json.RawMessage
		if content[0] != '[' || json.Unmarshal(content, &parts) != nil {
			continue
		}
		for _, p := range parts {
			if p[0] != '{' {
				continue
			}
			for _, t := range valuesOf(p, "type") {
				var s string
				if t[0] != '"' || json.Unmarshal(t, &s) != nil ||
					(s != "text" && s != "thinking" && s != "tool_reference") {
					return true
				}
			}
		}
	}
	return false
}

// valuesOf returns every value of a key in an object.
func valuesOf(raw []byte, key string) (values []json.RawMessage) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token()
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return values
		}
		var v json.RawMessage
		if dec.Decode(&v) != nil {
			return values
		}
		if k == key {
			values = append(values, v)
		}
	}
	return values
}

// prompt reads any of the allowed forms.
func (n *naive) prompt(raw json.RawMessage, texts, ids bool) bool {
	n.batch = false
	if raw[0] == '"' {
		n.prompts, n.hasText = 1, texts
		ok := texts && str(raw, &n.text)
		n.blank = n.blank || ok && n.text == ""
		return ok
	}
	var l []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &l) != nil || len(l) == 0 {
		return false
	}
	switch l[0][0] {
	case '"':
		return texts && n.texts(l)
	case '[':
		return ids && n.idLists(l)
	}
	var ok bool
	n.prompts = 1
	n.ids, ok = naiveIDs(raw)
	return ids && ok
}

func (n *naive) texts(l []json.RawMessage) bool {
	for i, raw := range l {
		var s string
		if raw[0] != '"' || !str(raw, &s) {
			return false
		}
		if i == 0 {
			n.text = s
		}
		n.blank = n.blank || s == ""
	}
	n.batch, n.prompts, n.hasText = true, len(l), true
	return true
}

func (n *naive) idLists(l []json.RawMessage) bool {
	for i, raw := range l {
		ids, ok := naiveIDs(raw)
		if !ok {
			return false
		}
		if i == 0 {
			n.ids = ids
		}
	}
	n.batch, n.prompts = true, len(l)
	return true
}

func naiveIDs(raw json.RawMessage) (ids []uint32, ok bool) {
	var l []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &l) != nil || len(l) == 0 {
		return nil, false
	}
	for _, r := range l {
		var v uint64
		if r[0] == 'n' || json.Unmarshal(r, &v) != nil || v > math.MaxUint32 {
			return nil, false
		}
		ids = append(ids, uint32(v))
	}
	return ids, true
}

func str(raw json.RawMessage, s *string) bool {
	return raw == nil || raw[0] == '"' && json.Unmarshal(raw, s) == nil
}

func boolean(raw json.RawMessage, b *bool) bool {
	var n float64
	var s string
	switch {
	case raw == nil, json.Unmarshal(raw, b) == nil:
		return true
	case json.Unmarshal(raw, &n) == nil:
		*b = n == 1
		return slices.Contains([]string{"0", "1", "0.0", "1.0"}, string(raw))
	case json.Unmarshal(raw, &s) == nil && !bytes.ContainsRune(raw, '\\'):
		*b = slices.Contains([]string{"1", "true", "t", "yes", "y", "on"}, strings.ToLower(s))
		return *b || slices.Contains([]string{"0", "false", "f", "no", "n", "off"}, strings.ToLower(s))
	}
	return false
}

// integer allows the integers of parseInt: 18 digits.
func integer(raw json.RawMessage) bool {
	var v int64
	return raw == nil || json.Unmarshal(raw, &v) == nil && len(strings.TrimPrefix(string(raw), "-")) <= 18
}

func strOrList(raw json.RawMessage, s *string) bool {
	var l []json.RawMessage
	if raw == nil || raw[0] != '[' || json.Unmarshal(raw, &l) != nil {
		return str(raw, s)
	}
	if len(l) == 0 || string(l[0]) == "null" {
		return true
	}
	return str(l[0], s)
}

func naiveRID(raw json.RawMessage, n *naive) bool {
	var l []json.RawMessage
	if raw == nil || raw[0] != '[' || json.Unmarshal(raw, &l) != nil {
		if !str(raw, &n.rid) {
			return false
		}
		n.wholeRID = wholeRID.MatchString(n.rid)
		return true
	}
	n.wholeRID = len(l) > 0
	for _, r := range l {
		var id string
		if r[0] != '"' || !str(r, &id) {
			return false
		}
		n.wholeRID = n.wholeRID && wholeRID.MatchString(id)
		n.rids = append(n.rids, id)
	}
	return true
}

// wholeRID is an id that may begin no other request's.
var wholeRID = regexp.MustCompile(`(?i)^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?-i:resp_)[!-~]{32})$`)
