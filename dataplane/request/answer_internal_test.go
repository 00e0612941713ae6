package request

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
)

// FuzzRenamer: names replace ids as strings.ReplaceAll does, wherever the pieces of the answer end.
func FuzzRenamer(f *testing.F) {
	id := string(openai.AppendRID(nil, 7, 9))
	f.Add(`{"id":"`+id+`"}`, uint8(1), uint8(3))
	f.Add(id+id+id[:20]+id, uint8(20), uint8(8))
	f.Add("wp-wp-"+id[:19]+"zzzzzzzz", uint8(5), uint8(19))
	f.Fuzz(func(t *testing.T, text string, first, step uint8) {
		x := &exchange{}
		x.id.key, x.id.lo, x.id.rid = 7, 9, []byte(id)
		x.req.RID = "mine"
		r := &renamer{x: x}
		var out []byte
		rest := []byte(text)
		for n := min(int(first), len(rest)); len(rest) > 0; n = min(int(step)+1, len(rest)) {
			piece := bytes.Clone(rest[:n])
			out = r.Append(out, piece)
			clear(piece) // it is reused
			rest = rest[n:]
		}
		out = r.End(out)
		if want := replaceIDs(text, id); string(out) != want {
			t.Errorf("%q is %q, want %q", text, out, want)
		}
	})
}

// TestEventsInPieces: ends and errors of a stream are seen wherever its pieces end.
func TestEventsInPieces(t *testing.T) {
	const begun, done = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "data: [DONE]\n\n"
	for name, tt := range map[string]struct {
		stream        string
		failed, ended bool
	}{
		"whole":                 {begun + done, false, true},
		"CRLF":                  {strings.ReplaceAll(begun+done, "\n", "\r\n"), false, true},
		"CR":                    {strings.ReplaceAll(begun+done, "\n", "\r"), false, true},
		"without an end":        {begun, false, false},
		"without its last line": {begun + "data: [DONE]", false, true},
		"an error":              {begun + "data: {\"id\":\"1\",\"error\":{\"message\":\"boom\"}}\n\n" + done, true, true},
		"a text of an error":    {"data: {\"choices\":[{\"text\":\"an error\"}]}\n\n" + done, false, true},
		"a named error":         {begun + "event: error\r\ndata: {}\r\n\r\n" + done, true, true},
		"a long event":          {"data: " + strings.Repeat("x", 20<<10) + "\n\n" + done, false, true},
	} {
		for cut := range len(tt.stream) {
			if cut > 100 && len(tt.stream)-cut > 100 {
				continue
			}
			x := &exchange{api: openai.APICompletions, inference: true}
			a := &x.answer
			a.x, a.events = x, true
			a.readEvents([]byte(tt.stream[:cut]))
			for i := cut; i < len(tt.stream); i += 1 + cut {
				a.readEvents([]byte(tt.stream[i:min(i+1+cut, len(tt.stream))]))
			}
			if cutShort := a.isCut(); a.failed != tt.failed || cutShort == tt.ended {
				t.Errorf("%s, cut at %d: failed %t, cut short %t", name, cut, a.failed, cutShort)
			}
		}
	}
}

// streamOf is a stream of an API: its first event, an event with a text, and its last.
type streamOf struct {
	api               openai.API
	first, text, last string
}

var streams = []streamOf{
	{openai.APIGenerate, `data: {"text":"a","meta_info":{"id":"x","finish_reason":null}}`, `{"text":"%s","meta_info":{"id":"x","finish_reason":null}}`, "data: [DONE]"},
	{openai.APIChat, `data: {"id":"1","choices":[{"delta":{"content":"a"}}]}`, `{"id":"1","choices":[{"delta":{"content":"%s"},"logprobs":{"content":[{"token":"%[1]s"}]}}]}`, "data: [DONE]"},
	{openai.APICompletions, `data: {"choices":[{"text":"a"}]}`, `{"choices":[{"text":"%s"}]}`, "data: [DONE]"},
	{openai.APIMessages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}", `{"type":"content_block_delta","delta":{"text":"%s"}}`, "event: message_stop\ndata: {\"type\":\"message_stop\"}"},
	{openai.APIResponses, "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}", `{"type":"response.output_text.delta","delta":"%s"}`, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}"},
}

// reads is the answer after a stream in pieces of 7 bytes.
func (s *streamOf) reads(text string) *answer {
	x := &exchange{api: s.api, inference: true}
	x.answer.x, x.answer.events = x, true
	for piece := range slices.Chunk([]byte(text), 7) {
		x.answer.readEvents(piece)
	}
	return &x.answer
}

// TestErrorsInAnySpelling: an error behind the beginning of a stream is seen in whichever of the usual forms it comes.
func TestErrorsInAnySpelling(t *testing.T) {
	for _, s := range streams {
		for _, event := range []string{
			`data: {"error":{"message":"boom","code":500}}`,
			`data:{"error":{"message":"boom","code":500}}`,
			`data:  { "error" : {"message":"boom","code":500}}`,
			`data: {"id":"1","error":{"message":"boom","code":500}}`,
			`data: {"object":"error","message":"boom","code":500}`,
			`data: {"message":"boom","object":"error","code":500}`,
			`data: {"type":"error","error":{"type":"api_error","message":"boom"}}`,
			"event: error\ndata: {\"message\":\"boom\"}",
			"event:error\ndata:{\"message\":\"boom\"}",
			"data: {\"error\":{\ndata: \"message\":\"boom\"}}",
			"event: error\r\ndata: {\"message\":\"boom\"}\r",
		} {
			assert.True(t, s.reads(s.first+"\n\n"+event+"\n\n"+s.last+"\n\n").failed, "%v: %s", s.api, event)
		}
	}
}

// TestStreamsInAnySpelling: what the specification of event streams allows is no error and has its end, and so have texts that read
// like one.
func TestStreamsInAnySpelling(t *testing.T) {
	for _, s := range streams {
		whole := s.first + "\n\n" + s.last + "\n\n"
		spellings := []string{
			whole + ": bye\n\n", whole + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3}}\n\n", strings.ReplaceAll(whole, "\n", "\r\n"), strings.ReplaceAll(whole, "\n", "\r"),
			strings.ReplaceAll(strings.ReplaceAll(whole, "data: ", "data:"), "event: ", "event:"), "\xef\xbb\xbf" + whole, "id: 1\nretry: 10\n" + whole, strings.TrimSuffix(whole, "\n"),
		}
		for _, word := range []string{"[DONE]", `\"error\"`, "error", "abort", "message_stop", "response.failed", `{\"error\":{}}`, `data: [DONE]`} {
			spellings = append(spellings, s.first+"\n\ndata: "+fmt.Sprintf(s.text, word)+"\n\n"+s.last+"\n\n")
			if s.api != openai.APIResponses { // whose end its turn reads
				assert.True(t, s.reads(s.first+"\n\ndata: "+fmt.Sprintf(s.text, word)+"\n\n").isCut(), "%v: %s is no end", s.api, word)
			}
		}
		for _, stream := range spellings {
			if s.api == openai.APIResponses && strings.Contains(stream, "\r") {
				continue // its turns are read by lines with LF
			}
			a := s.reads(stream)
			assert.False(t, a.failed, "%v: %q", s.api, stream)
			assert.False(t, s.api != openai.APIResponses && a.isCut(), "%v: %q", s.api, stream)
			verdict, _ := disagg.JudgeStream(s.api, []byte(stream), true)
			assert.Equal(t, disagg.Good, verdict, "%v: %q", s.api, stream)
		}
	}
}

// replaceIDs replaces every id of the attempt, whose last digits differ within a list.
func replaceIDs(text, id string) string {
	begin := id[:len(id)-lowDigits]
	var out strings.Builder
	for {
		at := strings.Index(text, begin)
		if at < 0 || len(text)-at < len(id) {
			out.WriteString(text)
			return out.String()
		}
		out.WriteString(text[:at])
		if low := text[at+len(begin) : at+len(id)]; strings.Trim(low, "0123456789abcdefABCDEF") == "" {
			out.WriteString("mine")
		} else {
			out.WriteString(text[at : at+len(id)])
		}
		text = text[at+len(id):]
	}
}
