package chattemplate

// Request is a chat request: its fields as raw JSON, nil where the client did not send them. null
// counts as not sent.
type Request struct {
	Messages        []byte
	Tools           []byte
	ToolChoice      []byte
	Kwargs          []byte // chat_template_kwargs
	ReasoningEffort []byte
	Reasoning       []byte
	Continue        []byte // continue_final_message
	InputIDs        []byte // input_ids: the client's own tokens, for which no template is rendered
}
