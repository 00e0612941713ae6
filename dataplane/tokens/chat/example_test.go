package chat_test

import (
	"errors"
	"fmt"

	"github.com/warmpath/warmpath/dataplane/tokens/chat"
)

func ExampleModel_Render() {
	m, err := chat.New(chat.Config{
		Source: chat.Source{Template: `{% for message in messages %}<{{ message.role }}>{{ message.content | trim }}</>{% endfor %}` +
			`{% if add_generation_prompt %}<assistant>{% endif %}`},
		Engine: chat.Engine{Version: "0.5.23"},
	})
	if err != nil {
		panic(err)
	}
	req, err := chat.ParseRequest([]byte(`{"model": "m", "messages": [{"role": "user", "content": " Hello "}], "stream": true}`))
	if err != nil {
		panic(err)
	}
	prompt, err := m.Render(nil, req)
	if errors.Is(err, chat.ErrUnsupported) {
		fmt.Println("ask the worker")
	}
	fmt.Println(string(prompt))
	// Output: <user>Hello</><assistant>
}
