package secrets

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

const hidden = "xxxxx"

// value is a field of a query, or of a fragment, that is a secret by its name. "key" may name a
// file.
var value = regexp.MustCompile(`(?i)([?&;#](?:[^=&;#?]*(?:[^=&;#?]key|token|secret|passwd|password|pwd|sig|signature|auth|credentials?|code)=))[^&;#]*` +
	`|([?&;#]key=)(?:[^/%&;#]|%(?:[^2]|2[^Ff]))[^&;#]*`)

// MaskURL hides the user, the password and the secrets in the query of a URL that is shown. All up
// to the last @ may be one of them, where the URL is not a valid one.
func MaskURL(text string) string {
	if hasUser(text) {
		at := strings.LastIndexByte(text, '@')
		scheme, _, found := strings.Cut(text[:at], "://")
		if !found || strings.ContainsAny(scheme, ": ") {
			text = hidden + text[at:]
		} else {
			text = scheme + "://" + hidden + text[at:]
		}
	}
	return value.ReplaceAllString(text, "${1}${2}"+hidden)
}

// hasUser reports whether a URL may have a user: an @ in the query of a valid one is none's.
func hasUser(text string) bool {
	if !strings.Contains(text, "@") {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return true
	}
	u.RawQuery = ""
	return strings.Contains(u.String(), "@")
}

// URLError returns the reason of an error of net/url or of an HTTP client, without the URL that it
// quotes.
func URLError(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	return err
}
