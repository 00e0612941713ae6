package chattemplate

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Engine describes how a worker turns a chat request into the input of its template. The fields are
// SGLang's own: from its server arguments (/server_info) and the model's config.json. Unknown ones
// may be left empty, but then [New] cannot refuse by them.
type Engine struct {
	Version         string   // of SGLang, for instance "0.5.23"
	ModelPath       string   // SGLang takes built-in templates for some names
	ModelType       string   // of config.json
	Architectures   []string // of config.json
	ToolCallParser  string
	ReasoningParser string
	DefaultKwargs   []byte // --default-chat-template-kwargs, a JSON object; nil for none
}

// The sources of these releases of SGLang were compared for this package. Others are refused: newer
// ones are unknown, older ones differ in more than dialect lists.
const (
	firstRelease = 12 // 0.5.12
	lastRelease  = 23 // 0.5.23
)

// dialect lists the differences between releases.
type dialect struct {
	// phase (0.5.20) and prefix (0.5.23) are fields of messages, printed where a template prints a
	// whole message.
	phase, prefix bool
	// keepKeyOrder (0.5.23): a function's keys stay in the client's order, and strict is left out
	// where the client left it out. Before, the order is description, name, parameters, strict, and
	// strict is false if it was not sent.
	keepKeyOrder bool
	// effortThinks (0.5.16): any reasoning_effort sets thinking and enable_thinking, unless the
	// client sets them. Before, only "none" did.
	effortThinks bool
	// defaults (0.5.16): the server has default template kwargs.
	defaults bool
	efforts  []string // the values of reasoning_effort
}

// dialectOf returns how a release behaves.
func dialectOf(version string) (dialect, error) {
	base, _, _ := strings.Cut(version, ".post")
	rest, ok := strings.CutPrefix(base, "0.5.")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < firstRelease || n > lastRelease {
		return dialect{}, fmt.Errorf("%w: SGLang %q; known are 0.5.%d to 0.5.%d", ErrUnsupported, version, firstRelease, lastRelease)
	}
	d := dialect{
		phase: n >= 20, prefix: n >= 23, keepKeyOrder: n >= 23, effortThinks: n >= 16, defaults: n >= 16,
		efforts: []string{"none", "low", "medium", "high", "max"},
	}
	if n >= 16 {
		d.efforts = append(d.efforts, "minimal", "xhigh")
	}
	if n >= 23 {
		d.efforts = append(d.efforts, "ultra")
	}
	return d, nil
}

// Models that SGLang does not render with their Jinja template.
var (
	// chat_encoding.py and its earlier forms: encoders in Python.
	encodedParsers = []string{"deepseekv41", "deepseekv4", "deepseekv32", "kimi_k3"}
	encodedArchs   = []string{"DeepseekV4", "DeepseekV32", "KimiK3", "InklingForConditionalGeneration", "GlmMoeDsa", "Glm5Next"}
	// serving_chat.py: requests are changed for these before they are rendered.
	changedModels = []string{"minimax_m3_vl"}
	// conversation.py: built-in templates by the model's type or path.
	builtinTypes = []string{
		"internvl_chat", "deepseek_vl_v2", "multi_modality", "phi4mm", "minicpmv", "minicpmo", "moss_vl", "deepseek-ocr", "unlimited-ocr",
		"paddleocr_vl", "whisper",
	}
	builtinPaths = regexp.MustCompile(`(?i)\bpoints\b|moss.*vl|internvl|janus|vicuna|llava-v1\.[56]|llava-next-video|llava-onevision-qwen2|` +
		`deepseek.*vl2|minicpm-(v|o)|phi-4-multimodal|deepseek-ocr|unlimited|paddleocr|whisper`)
)

// check refuses engines that do not render their model's Jinja template with the request as it
// comes.
func (e *Engine) check() error {
	refuse := func(what, value string) error {
		return fmt.Errorf("%w: SGLang renders %s %q in its own way", ErrUnsupported, what, value)
	}
	switch {
	case slices.Contains(encodedParsers, e.ToolCallParser):
		return refuse("for the tool call parser", e.ToolCallParser)
	case e.ReasoningParser == "hunyuan":
		return refuse("for the reasoning parser", e.ReasoningParser)
	case slices.Contains(changedModels, e.ModelType), slices.Contains(builtinTypes, e.ModelType):
		return refuse("the model type", e.ModelType)
	case builtinPaths.MatchString(e.ModelPath):
		return refuse("the model path", e.ModelPath)
	}
	for _, arch := range e.Architectures {
		for _, encoded := range encodedArchs {
			if strings.Contains(arch, encoded) {
				return refuse("the architecture", arch)
			}
		}
	}
	return nil
}

// NamesTemplate reports whether SGLang may take a built-in template for a model at this path.
func NamesTemplate(path string) bool { return builtinPaths.MatchString(path) }
