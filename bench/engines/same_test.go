//go:build engines

package engines_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
)

// document is a JSON object.
type document = map[string]any

// ask posts a body and returns what is the same in every engine's answer to it, streamed or not: without ids, times and the
// places where a stream is cut into events.
func ask(ctx context.Context, url string, body document) (answer document, header http.Header, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", got.StatusCode, bytes.TrimSpace(text))
	}
	if err != nil {
		return nil, got.Header, err
	}
	answer, err = fold(text, body["stream"] == true)
	return answer, got.Header, err
}

// fold makes one document of an answer: {"0": …, "1": …} with what each prompt or choice got.
func fold(text []byte, stream bool) (document, error) {
	whole := document{}
	if !stream {
		var one any
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, err
		}
		return whole, take(whole, one)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		data, found := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !found {
			continue
		}
		if string(data) == "[DONE]" {
			return whole, nil
		}
		var one any
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("cannot read the event %q: %w", data, err)
		}
		if err := take(whole, one); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("the stream ended without [DONE]: %w", io.ErrUnexpectedEOF)
}

// take adds one document or event to what is known.
func take(whole document, one any) error {
	if batch, ok := one.([]any); ok {
		for i, d := range batch {
			takeGenerated(whole, strconv.Itoa(i), d.(document))
		}
		return nil
	}
	d := one.(document)
	switch {
	case d["error"] != nil:
		return fmt.Errorf("the answer is an error: %v", d["error"])
	case d["meta_info"] != nil:
		index := "0"
		if i, ok := d["index"]; ok {
			index = fmt.Sprint(i)
		}
		takeGenerated(whole, index, d)
		return nil
	}
	for _, choice := range d["choices"].([]any) {
		takeChoice(whole, choice.(document))
	}
	if usage, ok := d["usage"].(document); ok {
		whole["usage"] = document{"prompt": usage["prompt_tokens"], "answer": usage["completion_tokens"]}
	}
	return nil
}

// takeGenerated keeps the last event of a prompt, which has all of it. The prompt's log probabilities have to be in each.
func takeGenerated(whole document, index string, d document) {
	meta := d["meta_info"].(document)
	kept := document{"text": d["text"], "output_ids": d["output_ids"]}
	for _, name := range []string{
		"finish_reason", "prompt_tokens", "completion_tokens", "output_token_logprobs", "output_top_logprobs", "output_token_ids_logprobs",
		"input_token_logprobs", "input_top_logprobs", "input_token_ids_logprobs",
	} {
		if value, ok := meta[name]; ok {
			kept[name] = value
		}
	}
	known, _ := meta["input_token_logprobs"].([]any)
	least := float64(len(known))
	if before, ok := whole[index].(document); ok {
		least = min(least, before["least input"].(float64))
	}
	kept["least input"] = least
	whole[index] = kept
}

// takeChoice adds a choice, or a part of one.
func takeChoice(whole, choice document) {
	index := fmt.Sprint(choice["index"])
	known, ok := whole[index].(document)
	if !ok {
		known = document{"text": "", "logprobs": document{}, "finish_reason": nil}
		whole[index] = known
	}
	text, _ := choice["text"].(string)
	for _, part := range []string{"delta", "message"} {
		if holder, ok := choice[part].(document); ok {
			text, _ = holder["content"].(string)
		}
	}
	known["text"] = known["text"].(string) + text
	if choice["finish_reason"] != nil {
		known["finish_reason"] = choice["finish_reason"]
	}
	lists, _ := choice["logprobs"].(document)
	all := known["logprobs"].(document)
	for name, list := range lists {
		if more, ok := list.([]any); ok {
			before, _ := all[name].([]any)
			all[name] = append(before, more...)
		}
	}
}

// differs returns where two answers are not the same, or "". Numbers may be apart by logprobTolerance; worst keeps the most
// that they were.
func differs(path string, a, b any, worst *float64) string {
	switch x := a.(type) {
	case document:
		y, ok := b.(document)
		if !ok || len(x) != len(y) {
			break
		}
		for key, value := range x {
			if where := differs(path+"."+key, value, y[key], worst); where != "" {
				return where
			}
		}
		return ""
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			break
		}
		for i, value := range x {
			if where := differs(fmt.Sprintf("%s[%d]", path, i), value, y[i], worst); where != "" {
				return where
			}
		}
		return ""
	case float64:
		y, ok := b.(float64)
		if !ok || math.Abs(x-y) > logprobTolerance {
			break
		}
		*worst = max(*worst, math.Abs(x-y))
		return ""
	default:
		if a == b {
			return ""
		}
	}
	return fmt.Sprintf("%s: %s against %s", path, short(a), short(b))
}

// dropTold takes the log probabilities out of the answers of chats, once they are known to be among those of the same answer
// in one piece. An engine leaves those of a token out of a stream whose event has no text, which depends on how many tokens
// it puts into an event.
func dropTold(whole document, streams ...document) string {
	for index, choice := range whole {
		probs, _ := choice.(document)["logprobs"].(document)
		all, ok := probs["content"].([]any)
		if !ok {
			continue
		}
		for _, s := range streams {
			told := s[index].(document)["logprobs"].(document)
			left, at := told["content"].([]any), 0
			for _, one := range left {
				var worst float64
				for at < len(all) && differs("", all[at], one, &worst) != "" {
					at++
				}
				if at++; at > len(all) {
					return fmt.Sprintf("%s: %s is not among %s", index, short(one), short(all))
				}
			}
			delete(told, "content")
		}
	}
	return ""
}

// short prints the beginning of a value.
func short(v any) string {
	text, _ := json.Marshal(v)
	return string(text[:min(len(text), 300)])
}
