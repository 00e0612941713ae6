package responses_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// longBody is a turn of a coding agent: tools, and many calls with their outputs.
func longBody() []byte {
	output := strings.Repeat(`    if err != nil {\n\t\treturn err\n    }\n`, 60)
	var b bytes.Buffer
	b.WriteString(`{"model":"m","instructions":"You are a coding agent.","stream":true,"store":false,"tools":[{"type":"function","name":"shell",` +
		`"description":"Runs a command.","strict":false,"parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}}}],` +
		`"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Fix it."}]}`)
	for range 100 {
		b.WriteString(`,{"type":"reasoning","summary":[{"type":"summary_text","text":"Look at the file first."}]},` +
			`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},` +
			`{"type":"function_call","call_id":"call_1","name":"shell","arguments":"{\"command\":[\"cat\",\"main.go\"]}"},` +
			`{"type":"function_call_output","call_id":"call_1","output":"` + output + `"}`)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

func BenchmarkAppendChat(b *testing.B) {
	body := longBody()
	var c responses.Converter
	var chat []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if chat, err = c.AppendChat(chat[:0], body, nil, responses.Dialect{}); err != nil {
			b.Fatal(err)
		}
	}
}
