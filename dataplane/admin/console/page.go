package console

import _ "embed" // for the files

// ContentSecurityPolicy is the header of every file: the page runs its own script only, asks only
// the router that served it, and never makes HTML of a string.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

//go:embed ui/src/index.html
var page []byte

//go:embed static/console.js
var script []byte

//go:embed static/console.css
var style []byte

// Has reports whether a path is one of the page's.
func Has(path string) bool {
	body, _ := File(path)
	return body != nil
}

// File returns the file of a path, with its content type; nil for another path.
func File(path string) (body []byte, contentType string) {
	switch path {
	case "/", "/console":
		return page, "text/html; charset=utf-8"
	case "/console/console.js":
		return script, "text/javascript; charset=utf-8"
	case "/console/console.css":
		return style, "text/css; charset=utf-8"
	}
	return nil, ""
}
