package worker

import "strings"

// MaskURL hides the user and the password of a URL that is printed. All up to the last @ may be one
// of them, where the URL is not a valid one.
func MaskURL(text string) string {
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return text
	}
	scheme, _, found := strings.Cut(text[:at], "://")
	if !found || strings.ContainsAny(scheme, ": ") {
		return "xxxxx" + text[at:]
	}
	return scheme + "://xxxxx" + text[at:]
}
