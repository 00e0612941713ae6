package console

import _ "embed" // for the page

//go:embed page.html
var page []byte

// Page returns the page, of type text/html with charset utf-8.
func Page() []byte { return page }
