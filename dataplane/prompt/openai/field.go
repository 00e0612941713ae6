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

// fieldNames are the keys of fields.
var fieldNames = [fieldCount]string{
	fieldModel: "model", fieldStream: "stream", fieldStreamOptions: "stream_options", fieldPrompt: "prompt",
	fieldText: "text", fieldInputIDs: "input_ids", fieldInputEmbeds: "input_embeds", fieldMessages: "messages",
	fieldMaxTokens: "max_tokens", fieldMaxCompletionTokens: "max_completion_tokens",
	fieldSamplingParams: "sampling_params", fieldN: "n", fieldRID: "rid", fieldLoRAPath: "lora_path",
	fieldCacheSalt: "cache_salt", fieldExtraKey: "extra_key", fieldPriority: "priority",
	fieldLogprobs: "logprobs", fieldReturnLogprob: "return_logprob", fieldLogprobStartLen: "logprob_start_len",
	fieldEcho: "echo", fieldRank: "routed_dp_rank", fieldOldRank: "data_parallel_rank",
	fieldSessionID: "session_id", fieldSessionParams: "session_params", fieldMetadata: "metadata",
	fieldConversation: "conversation", fieldPreviousResponse: "previous_response_id",
	fieldPromptCacheKey: "prompt_cache_key", fieldImageData: "image_data", fieldAudioData: "audio_data",
	fieldVideoData: "video_data", fieldTopLogprobs: "top_logprobs", fieldTopLogprobsNum: "top_logprobs_num",
	fieldTopK: "top_k", fieldStopTokenIDs: "stop_token_ids", fieldMinTokens: "min_tokens",
	fieldEmbedOverrides: "positional_embed_overrides", fieldBootstrapHost: "bootstrap_host",
	fieldCustomLabels: "custom_labels", fieldInput: "input", fieldQuery: "query", fieldItems: "items",
	fieldTools: "tools", fieldToolChoice: "tool_choice", fieldTemplateKwargs: "chat_template_kwargs",
	fieldReasoningEffort: "reasoning_effort", fieldReasoning: "reasoning", fieldThinking: "thinking",
	fieldTask: "task", fieldContinueFinal: "continue_final_message", fieldResponseFormat: "response_format",
	fieldParallelToolCalls: "parallel_tool_calls",
}

// fieldsByLength are the fields by the length of their keys.
var fieldsByLength = func() (all [32][]namedField) {
	for f := fieldNone + 1; f < fieldCount; f++ {
		n := len(fieldNames[f])
		all[n] = append(all[n], namedField{fieldNames[f], f})
	}
	return all
}()

type namedField struct {
	name  string
	field field
}

// fieldOf returns the field of a key, fieldNone for the many that routing does not read.
func fieldOf(key []byte) field {
	if len(key) == 0 || len(key) >= len(fieldsByLength) {
		return fieldNone
	}
	for i := range fieldsByLength[len(key)] {
		if f := &fieldsByLength[len(key)][i]; f.name[0] == key[0] && f.name == string(key) {
			return f.field
		}
	}
	return fieldNone
}
