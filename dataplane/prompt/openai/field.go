package openai

// field is a top-level member of a body that Parse keeps.
type field uint8

const (
	fieldNone field = iota
	fieldModel
	fieldStream
	fieldStreamOptions
	fieldPrompt
	fieldText
	fieldInputIDs
	fieldInputEmbeds
	fieldMessages
	fieldMaxTokens
	fieldMaxCompletionTokens
	fieldSamplingParams
	fieldN
	fieldRID
	fieldLoRAPath
	fieldCacheSalt
	fieldExtraKey
	fieldPriority
	fieldLogprobs
	fieldReturnLogprob
	fieldLogprobStartLen
	fieldEcho
	fieldRank
	fieldOldRank
	fieldSessionID
	fieldSessionParams
	fieldMetadata
	fieldConversation
	fieldPreviousResponse
	fieldPromptCacheKey
	fieldImageData
	fieldAudioData
	fieldVideoData
	fieldTopLogprobs
	fieldTopLogprobsNum
	fieldTopK
	fieldStopTokenIDs
	fieldMinTokens
	fieldEmbedOverrides
	fieldBootstrapHost
	fieldCustomLabels
	fieldInput
	fieldQuery
	fieldItems
	// From here to lastTemplateField: fields that a chat template may read besides the messages.
	fieldTools
	fieldToolChoice
	fieldTemplateKwargs
	fieldReasoningEffort
	fieldReasoning
	fieldThinking
	fieldTask
	fieldContinueFinal
	fieldResponseFormat
	fieldParallelToolCalls
	fieldCount

	lastTemplateField = fieldCount - 1
)

// fieldOf returns the field of a key, fieldNone for the many that routing does not read. The
// compiler turns the table into a search by length and content.
func fieldOf(key []byte) field {
	switch string(key) {
	case "model":
		return fieldModel
	case "stream":
		return fieldStream
	case "stream_options":
		return fieldStreamOptions
	case "prompt":
		return fieldPrompt
	case "text":
		return fieldText
	case "input_ids":
		return fieldInputIDs
	case "input_embeds":
		return fieldInputEmbeds
	case "messages":
		return fieldMessages
	case "max_tokens":
		return fieldMaxTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "sampling_params":
		return fieldSamplingParams
	case "n":
		return fieldN
	case "rid":
		return fieldRID
	case "lora_path":
		return fieldLoRAPath
	case "cache_salt":
		return fieldCacheSalt
	case "extra_key":
		return fieldExtraKey
	case "priority":
		return fieldPriority
	case "routed_dp_rank":
		return fieldRank
	case "data_parallel_rank":
		return fieldOldRank
	case "image_data":
		return fieldImageData
	case "audio_data":
		return fieldAudioData
	case "video_data":
		return fieldVideoData
	}
	return templateFieldOf(key)
}

// templateFieldOf is fieldOf for the fields that a chat template may read.
func templateFieldOf(key []byte) field {
	switch string(key) {
	case "tools":
		return fieldTools
	case "tool_choice":
		return fieldToolChoice
	case "chat_template_kwargs":
		return fieldTemplateKwargs
	case "reasoning_effort":
		return fieldReasoningEffort
	case "reasoning":
		return fieldReasoning
	case "thinking":
		return fieldThinking
	case "task":
		return fieldTask
	case "continue_final_message":
		return fieldContinueFinal
	case "response_format":
		return fieldResponseFormat
	case "parallel_tool_calls":
		return fieldParallelToolCalls
	}
	return sessionFieldOf(key)
}

// sessionFieldOf is fieldOf for the fields that name a session.
func sessionFieldOf(key []byte) field {
	switch string(key) {
	case "session_id":
		return fieldSessionID
	case "session_params":
		return fieldSessionParams
	case "metadata":
		return fieldMetadata
	case "conversation":
		return fieldConversation
	case "previous_response_id":
		return fieldPreviousResponse
	case "prompt_cache_key":
		return fieldPromptCacheKey
	}
	return answerFieldOf(key)
}

// answerFieldOf is fieldOf for the fields that change the contents of an answer.
func answerFieldOf(key []byte) field {
	switch string(key) {
	case "logprobs":
		return fieldLogprobs
	case "return_logprob":
		return fieldReturnLogprob
	case "logprob_start_len":
		return fieldLogprobStartLen
	case "echo":
		return fieldEcho
	case "bootstrap_host":
		return fieldBootstrapHost
	}
	return limitFieldOf(key)
}

// limitFieldOf is fieldOf for the fields with values that end an engine.
func limitFieldOf(key []byte) field {
	switch string(key) {
	case "top_logprobs":
		return fieldTopLogprobs
	case "top_logprobs_num":
		return fieldTopLogprobsNum
	case "top_k":
		return fieldTopK
	case "stop_token_ids":
		return fieldStopTokenIDs
	case "min_tokens":
		return fieldMinTokens
	case "positional_embed_overrides":
		return fieldEmbedOverrides
	case "custom_labels":
		return fieldCustomLabels
	case "input":
		return fieldInput
	case "query":
		return fieldQuery
	case "items":
		return fieldItems
	}
	return fieldNone
}

// name is the key of a field that PromptFields returns.
func (f field) name() string {
	switch f {
	case fieldTools:
		return "tools"
	case fieldToolChoice:
		return "tool_choice"
	case fieldTemplateKwargs:
		return "chat_template_kwargs"
	case fieldReasoningEffort:
		return "reasoning_effort"
	case fieldReasoning:
		return "reasoning"
	case fieldThinking:
		return "thinking"
	case fieldTask:
		return "task"
	case fieldContinueFinal:
		return "continue_final_message"
	case fieldResponseFormat:
		return "response_format"
	case fieldParallelToolCalls:
		return "parallel_tool_calls"
	}
	return ""
}
