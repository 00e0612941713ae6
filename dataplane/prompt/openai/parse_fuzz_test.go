package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func FuzzParseAgainstNaive(f *testing.F) {
	for _, c := range parseCases() {
		f.Add(uint8(c.api), []byte(c.body))
	}
	f.Fuzz(func(t *testing.T, api uint8, body []byte) { parseAgainstNaive(t, openai.API(api%4), body) })
}

// FuzzIDsAgainstNaive puts bytes into a list of ids that is long enough for the fast path, at any
// place in it.
func FuzzIDsAgainstNaive(f *testing.F) {
	for i, s := range []string{
		"", "0", "00", "01", "1234567", "12345678", "4294967295", "4294967296", " ", "  ", ", ", ",,", "\n", "-", "-1,", "1.5", "1e3", "null",
		"]", "],[", "],\"a\":[", "\"", "\x00", "/", ":", "\x80", "\xb0", "\xff", ",\t7 ,8\r\n,",
		strings.Repeat("1,", 64), strings.Repeat("123456, ", 20),
	} {
		f.Add(uint16(7*i), s)
	}
	var long strings.Builder
	for i := range 60 {
		fmt.Fprintf(&long, "%d,", i*i*i)
	}
	f.Fuzz(func(t *testing.T, at uint16, put string) {
		text := long.String()
		i := int(at) % len(text)
		parseAgainstNaive(t, openai.APIGenerate, []byte(`{"input_ids":[`+text[:i]+put+text[i:]+`7]}`))
	})
}

func parseAgainstNaive(t *testing.T, a openai.API, body []byte) {
	t.Helper()
	if validJSON(body) && depthOf(body) > openai.MaxDepth {
		t.Skip()
	}
	var r openai.Request
	// A used Request must not remember the body before.
	_ = r.Parse(openai.APICompletions, []byte(`{"model":"old","prompt":[[7,8],[9]],"rid":["a"],"n":3}`))
	err := r.Parse(a, body)
	want := naiveParse(a, body)
	if (err == nil) != want.ok {
		t.Fatalf("Parse(%d, %q) = %v, naive ok = %v", a, body, err, want.ok)
	}
	if err != nil {
		checkError(t, err)
		return
	}
	compare(t, &r, want, body)
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) || e.Status != 400 || e.Message == "" {
		t.Fatalf("error %#v, want an *Error with status 400", err)
	}
	if out := e.AppendJSON(nil); !validJSON(out) {
		t.Fatalf("AppendJSON(%#v) = %q, which is not JSON", e, out)
	}
}

func compare(t *testing.T, r *openai.Request, want naive, body []byte) {
	t.Helper()
	got := naive{
		ok: true, model: r.Model, stream: r.Stream, batch: r.Batch, hasText: r.HasText, text: string(r.Text),
		prompts: r.Prompts, messages: string(r.Messages), tools: string(r.Tools), multimodal: r.Multimodal,
		salt: r.CacheSalt, lora: r.LoRA, rid: r.RID, sessionID: string(r.SessionID), rids: r.RIDs, wholeRID: r.WholeRID,
	}
	ids := want.ids
	want.ids = nil
	if !equalNaive(got, want) {
		t.Fatalf("body %q:\n got %+v\nwant %+v", body, got, want)
	}
	if r.HasIDs != (ids != nil) || !slices.Equal(r.InputIDs, ids) {
		t.Fatalf("body %q: ids %v (%v), want %v", body, r.InputIDs, r.HasIDs, ids)
	}
	checkWorkersID(t, r, body)
}

// checkWorkersID holds the id that the router aborts against the one that a worker reads: of equal
// members the last.
func checkWorkersID(t *testing.T, r *openai.Request, body []byte) {
	t.Helper()
	const own = "wp-0123456789abcdef01234567"
	want, out := any(own), body
	switch {
	case !r.WholeRID:
		out = slices.Concat(openai.SpliceField(nil, body, []byte(`"rid":"`+own+`"`))...)
	case r.RIDs != nil:
		var list []any
		for _, id := range r.RIDs {
			list = append(list, id)
		}
		want = list
	default:
		want = r.RID
	}
	if !validJSON(out) {
		t.Fatalf("SpliceField(%q) = %q, which is not JSON", body, out)
	}
	var read map[string]any
	if err := json.Unmarshal(bytes.TrimPrefix(out, byteOrder), &read); err != nil {
		t.Skip() // a number that encoding/json has no room for
	}
	if !reflect.DeepEqual(read["rid"], want) {
		t.Fatalf("a worker reads the id %v in %q, the router aborts %v", read["rid"], out, want)
	}
}

func equalNaive(a, b naive) bool {
	return a.ok == b.ok && a.model == b.model && a.stream == b.stream && a.batch == b.batch &&
		a.hasText == b.hasText && a.text == b.text && a.prompts == b.prompts && a.messages == b.messages &&
		a.tools == b.tools && a.multimodal == b.multimodal && a.salt == b.salt && a.lora == b.lora &&
		a.rid == b.rid && a.sessionID == b.sessionID && a.wholeRID == b.wholeRID && slices.Equal(a.rids, b.rids)
}

func FuzzValidAgainstEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`0`, `-0.5e+3`, `01`, `1.`, `-`, `"\u00e9\n"`, `"\x"`, "\"\x01\"", "\"\xff\"", `[1,]`, `{"a":1,}`, `{"a" 1}`,
		`nul`, `true false`, ` [ { "a" : [ ] } , "😀\ud83d" ] `, `[1e]`, `"abcdefgh\"abcdefgh`, ``, ` `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want := validJSON(body)
		if want && depthOf(body) > openai.MaxDepth {
			t.Skip()
		}
		if err := openai.Valid(body); (err == nil) != want {
			t.Fatalf("Valid(%q) = %v, encoding/json says %v", body, err, want)
		}
	})
}
