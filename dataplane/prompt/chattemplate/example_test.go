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
	prompt, err := m.Render(nil, chattemplate.Request{Messages: []byte(`[{"role": "user", "content": " Hello "}]`)})
	if errors.Is(err, chattemplate.ErrUnsupported) {
		fmt.Println("ask the worker")
	}
	fmt.Println(string(prompt))
	// Output: <user>Hello</><assistant>
}
