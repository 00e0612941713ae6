package chattemplate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// tight are limits under which no input takes long.
var tight = chattemplate.Limits{Output: 1 << 18, Memory: 1 << 22, Steps: 50_000}

// sound fails for an error that is none of the documented ones, or that this package owes to a bug.
func sound(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	known := errors.Is(err, chattemplate.ErrTemplate) || errors.Is(err, chattemplate.ErrUnsupported) || errors.Is(err, chattemplate.ErrLimit) || errors.Is(err, chattemplate.ErrSyntax)
	if !known || strings.Contains(err.Error(), "a bug") {
		t.Fatalf("error %v", err)
	}
}

// FuzzCompile compiles any text, and renders the templates that compile: twice, and behind other
// bytes, with equal results.
func FuzzCompile(f *testing.F) {
	v := readVectors(f)
	for i, vector := range append(append(v.Hand, v.Programs...), v.Generated...) {
		if i < 200 || i%20 == 0 {
			f.Add(*vector[0])
		}
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := chattemplate.Compile(source)
		sound(t, err)
		if err != nil {
			return
		}
		in := chattemplate.Input{Messages: []byte(`[{"role": "user", "content": "x"}]`), Kwargs: v.Vars, Now: now, Limits: tight}
		first, err := tmpl.Render(nil, in)
		sound(t, err)
		again, err2 := tmpl.Render([]byte("before"), in)
		if (err == nil) != (err2 == nil) || err == nil && string(again) != "before"+string(first) {
			t.Fatalf("%q renders %q, %v and then %q, %v", source, first, err, again, err2)
		}
	})
}

// FuzzRender renders any request with our own templates. The oracle is the body itself: without the
// spaces between its elements it means the same, and renders the same.
func FuzzRender(f *testing.F) {
	names, err := filepath.Glob("testdata/templates/*.jinja")
	if err != nil {
		f.Fatal(err)
	}
	var models, small []*chattemplate.Model
	for _, name := range names {
		name = strings.TrimSuffix(filepath.Base(name), ".jinja")
		models = append(models, modelOf(f, name))
		small = append(small, limited(f, name, chattemplate.Limits{Output: 200, Memory: 4000, Steps: 60}))
	}
	raw, err := os.ReadFile("testdata/requests.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for i, line := range bytes.Split(raw, []byte("\n")) {
		var a asked
		if i%5 == 0 && json.Unmarshal(line, &a) == nil && a.Body != "" {
			f.Add(uint8(i), []byte(a.Body))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		m := models[int(which)%len(models)]
		req, err := chattemplate.ParseRequest(body)
		sound(t, err)
		if err != nil {
			return
		}
		got, err := m.Render(nil, req)
		sound(t, err)
		less, err2 := small[int(which)%len(models)].Render(nil, req)
		sound(t, err2)
		if err2 == nil && (err != nil || string(less) != string(got)) {
			t.Fatalf("%q renders %q, %v; under limits %q", body, got, err, less)
		}
		if err != nil {
			return
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q renders to what is no UTF-8: %q", body, got)
		}
		// Keys keep their order, and strings and numbers their spelling.
		var compact bytes.Buffer
		if json.Compact(&compact, body) != nil {
			return // Python reads NaN, encoding/json does not
		}
		again, err := chattemplate.ParseRequest(compact.Bytes())
		if err != nil {
			t.Fatalf("%s: %v, but %s can be read", compact.Bytes(), err, body)
		}
		if out, err := m.Render(nil, again); err != nil || string(out) != string(got) {
			t.Fatalf("%q renders %q\n%q renders %q, %v", body, got, compact.Bytes(), out, err)
		}
	})
}

// FuzzJSON reads any JSON and writes it again with tojson. The oracle is encoding/json: both texts
// mean the same to it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00"], "b": {"c": {}}}`, `"plain"`, `123456789012345678901234567890`, `[1e400, -0, -0.0]`,
		`{"a": 1, "a": 2, "b": 3}`, `"\ud800"`, `"\u0000\u001f\u007f\/"`, `[[[[]]]]`, "\"\xff\"", `"a\\"`, `01`, `1.`, `[1,]`, `{"a":1,}`, ` 1 `,
		`"0123456789abcdef\"0123456789abcdef"`, `{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"ka":10,"kb":11,"kc":12,` +
			`"kd":13,"ke":14,"kf":15,"kg":16,"k0":17}`,
	} {
		f.Add([]byte(seed))
	}
	tmpl, err := chattemplate.Compile("{{ x|tojson }}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		kwargs := append(append([]byte(`{"x":`), raw...), '}')
		got, err := tmpl.Render(nil, chattemplate.Input{Messages: []byte(`[]`), Kwargs: kwargs, Limits: tight})
		sound(t, err)
		var want, have map[string]any
		valid := decodeNumbers(kwargs, &want) == nil && len(want) == 1 && utf8.Valid(raw)
		if err != nil {
			if valid && errors.Is(err, chattemplate.ErrTemplate) {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if !valid { // Python reads NaN and Infinity, unlike encoding/json
			return
		}
		if err := decodeNumbers(append(append([]byte(`{"x":`), got...), '}'), &have); err != nil {
			if strings.Contains(string(got), "Infinity") {
				return
			}
			t.Fatalf("%q gives %q: %v", raw, got, err)
		}
		if !sameJSON(want["x"], have["x"]) {
			t.Fatalf("%q gives %q", raw, got)
		}
	})
}

// decodeNumbers decodes without rounding integers.
func decodeNumbers(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more behind the value")
	}
	return nil
}

// sameJSON compares values; numbers by value, since Python writes 1e2 as 100.0.
func sameJSON(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok {
			return false
		}
		x, _ := a.Float64()
		y, _ := b.Float64()
		exact := strings.ContainsAny(string(a), ".eE") || a == "-0" || a == b
		return x == y && exact
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameJSON(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if !sameJSON(a[k], b[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
