package chattemplate_test

import (
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

func ExampleModel_Render() {
	m, err := chattemplate.New(chattemplate.Config{
		Source: chattemplate.Source{Template: `{% for message in messages %}<{{ message.role }}>{{ message.content | trim }}</>{% endfor %}` +
			`{% if add_generation_prompt %}<assistant>{% endif %}`},
		Engine: chattemplate.Engine{Version: "0.5.23"},
	})
	if err != nil {
		panic(err)
	}
	req, err := chattemplate.ParseRequest([]byte(`{"model": "m", "messages": [{"role": "user", "content": " Hello "}], "stream": true}`))
	if err != nil {
		panic(err)
	}
	prompt, err := m.Render(nil, req)
	if errors.Is(err, chattemplate.ErrUnsupported) {
		fmt.Println("ask the worker")
	}
	fmt.Println(string(prompt))
	// Output: <user>Hello</><assistant>
}
