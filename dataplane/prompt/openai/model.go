package openai

import "strings"

// SplitModel splits "base:adapter" as SGLang does, given the name that the worker serves: the
// served name itself and its prefix are taken whole first, since it may hold colons ("s3://…").
func SplitModel(model, served string) (base, adapter string) {
	if model == served || !strings.Contains(model, ":") {
		return model, ""
	}
	if rest, ok := strings.CutPrefix(model, served+":"); ok && served != "" {
		return strings.TrimSpace(served), strings.TrimSpace(rest)
	}
	base, adapter, _ = strings.Cut(model, ":")
	return strings.TrimSpace(base), strings.TrimSpace(adapter)
}
