package request

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
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
