package warmpath_test

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// updateReference writes docs/reference: this package its metrics, endpoints and headers, and
// cmd/warmpath its commands and settings.
const updateReference = "go test -run Reference . ./cmd/warmpath -update"

// described is a row of a table whose names are in the code and whose words are here. Each name in
// the code has a row and each row a name in the code.
type described struct{ name, how, does string }

// endpointGroups are the paths that a process serves, by listener. How is the method.
var endpointGroups = []struct {
	title   string
	folders []string // the same for several groups
	rows    []described
}{
	{"The router, for clients", routerFolders, []described{
		{"/v1/chat/completions", "POST", "OpenAI's chats"},
		{"/v1/completions", "POST", "OpenAI's completions"},
		{"/v1/responses", "POST", "OpenAI's responses"},
		{"/v1/responses/{id}", "GET", "a stored response, from the worker that has it"},
		{"/v1/responses/{id}/cancel", "POST", "ends a response in the background"},
		{"/v1/messages", "POST", "Anthropic's messages"},
		{"/v1/messages/count_tokens", "POST", "the tokens that a message would have"},
		{"/generate", "POST, PUT", "SGLang's own API"},
		{"/v1/models", "GET", "the models that are served, answered by the router"},
		{"/v1/models/{name}", "GET", "one model, answered by a worker"},
		{"/v1/embeddings", "POST", "passed to a worker by load"},
		{"/v1/rerank", "POST, PUT", "passed to a worker by load"},
		{"/rerank", "POST", "passed to a worker by load"},
		{"/v1/score", "POST", "passed to a worker by load"},
		{"/v1/classify", "POST", "passed to a worker by load"},
		{"/classify", "POST, PUT", "passed to a worker by load"},
		{"/encode", "POST, PUT", "passed to a worker by load"},
		{"/v1/tokenize", "POST", "token ids by a worker's tokenizer"},
		{"/tokenize", "POST", "the same"},
		{"/v1/detokenize", "POST", "text of token ids by a worker's tokenizer"},
		{"/detokenize", "POST", "the same"},
		{"/model_info", "GET", "a worker's description of its model"},
		{"/get_model_info", "GET", "the same"},
		{"/health_generate", "GET", "a worker generates a token"},
		{"/abort_request", "POST", "ends the client's own request with this `rid`"},
		{"/server_info", "", "refused with 403: an engine's answer has its keys"},
		{"/get_server_info", "", "the same"},
		{"/health", "GET", "liveness of the router, without a key"},
		{"/liveness", "GET", "the same"},
		{"/ready", "GET", "200 when some model can be served, without a key"},
		{"/readiness", "GET", "the same"},
	}},
	{"The router, for operators: at `--operator-listen`, else on the clients' address", routerFolders, []described{
		{"/status", "GET", "everything that the router knows, as JSON"},
		{"/history", "GET", "the traffic of the last quarter of an hour in steps of 5 s, and of the last day in steps of 2 minutes, as JSON"},
		{"/choices", "GET", "the last choices with their reasons; `?number=` one of them with its candidates, as `/explain` has them"},
		{"/index", "GET", "the beginnings that most of the last choices' prompts share, with their text where it is known, and the ranks that hold them"},
		{"/what_if", "GET", "what other policies would have made of the last choices, each judged alone with the caches as they were"},
		{"/nodes", "GET", "nodes of the cluster with their GPUs, workers and KV tiers, as their sidecars tell; `?name=` one of them with its links"},
		{"/links", "GET", "measured links between nodes, the worst first, with the number of pairs that use each"},
		{"/metrics", "GET", "[metrics](metrics.md) for Prometheus"},
		{"/workers", "GET, POST, DELETE", "lists workers, adds and removes one: `{\"url\": …, \"role\": …, \"bootstrap_port\": …, \"bootstrap_host\": …}`"},
		{"/workers/drain", "POST, DELETE", "drains a worker, `{\"url\": …}`, or all of a node, `{\"node\": …}`; DELETE, or `\"drain\": false`, ends it"},
		{"/workers/cordon", "POST, DELETE", "cordons a worker or node, as above: those not in use yet are kept out, the others serve on"},
		{"/explain", "POST", "every candidate of a prompt with its overlap, load, trust and cost; no worker gets the prompt"},
		{"/flush_cache", "POST", "empties the prefix caches of all workers, for benchmarks between runs"},
		{"/console", "GET", "pages of faults, charts, workers, choices, other policies, prefixes, prompts, nodes and links"},
		{"/debug/index", "GET", "the top of the index as text"},
		{"/debug/pprof/{profile}", "GET", "Go's profiles: `profile?seconds=10` (at most 60), `heap`, `goroutine` and others"},
	}},
	{"The sidecar, at `--listen` of `warmpath node`", []string{"dataplane/sidecar", "dataplane/kvtier/store", "dataplane/operator"}, []described{
		{"/status", "GET", "workers, GPUs, health, links and tier of the node, as JSON"},
		{"/metrics", "GET", "[metrics](metrics.md) for Prometheus, GPUs under dcgm-exporter's names"},
		{"/health", "GET", "liveness"},
		{"/ready", "GET", "200 after the first look at the machine and, in a cluster, the first record"},
		{"/debug/pprof/{profile}", "GET", "Go's profiles, for operators: with `--operator-key`, or on loopback"},
		{"/tier", "GET", "contents and counters of the KV tier"},
		{"/prefetch", "POST", "pulls the pages of a prompt from other nodes: `{\"model\": …, \"input_ids\": […]}`"},
	}},
}

var (
	routerFolders = []string{"dataplane/request", "dataplane/admin", "dataplane/admin/console", "dataplane/operator"}
	endpointName  = regexp.MustCompile(`^/[a-z][a-z0-9_/]*$`)
	// notServed are literals of these folders that look like paths of an API.
	notServed = []string{"/proc", "/v1/messages/", "/sys/class/infiniband"}
)

// headerGroups are the fields of HTTP heads that the router reads or writes. How is the value.
var headerGroups = []struct {
	title string
	rows  []described
}{
	{"Of requests", []described{
		{"X-Api-Key", "KEY", "the client's key, as `Authorization: Bearer KEY`"},
		{"X-Request-ID", "visible ASCII, at most 128 bytes", "name of the request in logs, traces and the answer; a new one without it"},
		{"X-Warmpath-Deadline", "seconds, at most 3600", "the first token is wanted within this time, instead of `--queue-timeout`"},
		{"X-Data-Parallel-Rank", "number", "the rank that the request must go to"},
		{"X-Body-Compressed", "coding", "SGLang's name for `Content-Encoding`: gzip or zstd"},
		{"X-Session-ID", "name", "the session of the request"},
		{"Session-Id", "name", "the same, of Codex; `Session_id` before 2026"},
		{"Session_id", "name", "the same"},
		{"X-Claude-Code-Session-Id", "name", "the same, of Claude Code"},
		{"X-Opencode-Session", "name", "the same, of opencode"},
		{"Traceparent", "W3C trace context", "the client's trace, of which the request's span becomes a part"},
		{"Tracestate", "W3C trace context", "passed on"},
	}},
	{"Of answers", []described{
		{"X-Warmpath-Worker", "URL", "worker that answered; of a pair the decode worker"},
		{"X-Warmpath-Prefill", "URL", "prefill worker of a pair"},
		{"X-Warmpath-Overlap", "blocks / blocks", "blocks of the prompt that the router expected in the worker's cache, and all; of a pair the prefill worker's"},
		{"X-Warmpath-Overlap-Source", "exact, approximate or none", "by the worker's events, by its answers, or not known"},
		{"X-Content-Type-Options", "nosniff", "of the console's files"},
		{"X-Ratelimit-", "", "`X-Ratelimit-Limit-…`, `-Remaining-…` and `-Reset-…` of the limit of a key that was exceeded"},
	}},
	{"To workers, with `--pair-headers`", []described{
		{"X-Override-Rid", "id", "id of the request, for aborts"},
		{"X-Override-Bootstrap-Host", "host", "the prefill worker's bootstrap server"},
		{"X-Override-Bootstrap-Port", "port", "the same"},
		{"X-Override-Bootstrap-Room", "number", "joins the two halves of a request"},
		{"X-Override-Routed-Dp-Rank", "number", "rank of the worker"},
		{"X-Override-Disagg-Prefill-Dp-Rank", "number", "rank of the prefill worker"},
	}},
}

var headerName = regexp.MustCompile(`^(X(-[A-Z][A-Za-z]*)+-?|Session[-_][Ii]d|Trace(parent|state))$`)

// literals returns the strings of folders that match a pattern.
func literals(t *testing.T, folders []string, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for folder, files := range sources(t) {
		if !slices.Contains(folders, folder) {
			continue
		}
		for _, s := range files {
			if s.isTest() {
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					if text, ok := constant(lit); ok && pattern.MatchString(text) {
						found[text] = true
					}
				}
				return true
			})
		}
	}
	return found
}

// row writes one row of a table.
func (d described) row(b *strings.Builder) {
	fmt.Fprintf(b, "| `%s` | %s | %s |\n", d.name, d.how, d.does)
}

// TestReferenceEndpoints compares the table of endpoints with the paths in the code.
func TestReferenceEndpoints(t *testing.T) {
	var b strings.Builder
	known := map[string]map[string]bool{} // by folders
	for _, group := range endpointGroups {
		fmt.Fprintf(&b, "## %s\n\n| path | method | answer |\n| --- | --- | --- |\n", group.title)
		code := literals(t, group.folders, endpointName)
		key := strings.Join(group.folders, " ")
		if known[key] == nil {
			known[key] = map[string]bool{}
		}
		for _, row := range group.rows {
			row.row(&b)
			fixed, _, _ := strings.Cut(row.name, "{")
			known[key][row.name], known[key][fixed] = true, true
			if !code[fixed] && !code[strings.TrimSuffix(fixed, "/")] {
				t.Errorf("no code in %v serves %s: take its row out of reference_test.go", group.folders, row.name)
			}
		}
		b.WriteString("\n")
	}
	for _, group := range endpointGroups {
		for path := range literals(t, group.folders, endpointName) {
			if !known[strings.Join(group.folders, " ")][path] && !slices.Contains(notServed, path) {
				t.Errorf("%v have the path %s: describe it in endpointGroups of reference_test.go", group.folders, path)
			}
		}
	}
	compareReference(t, "endpoints", b.String())
}

// TestReferenceHeaders compares the table of headers with the names in the code.
func TestReferenceHeaders(t *testing.T) {
	code := map[string]bool{}
	var folders []string
	for folder := range sources(t) {
		if strings.HasPrefix(folder, "dataplane/") {
			folders = append(folders, folder)
		}
	}
	for name := range literals(t, folders, headerName) {
		code[strings.ToLower(name)] = true
	}
	var b strings.Builder
	known := map[string]bool{}
	for _, group := range headerGroups {
		fmt.Fprintf(&b, "## %s\n\n| header | value | meaning |\n| --- | --- | --- |\n", group.title)
		for _, row := range group.rows {
			row.row(&b)
			known[strings.ToLower(row.name)] = true
			if !code[strings.ToLower(row.name)] {
				t.Errorf("no code has the header %s: take its row out of reference_test.go", row.name)
			}
		}
		b.WriteString("\n")
	}
	for name := range code {
		if !known[name] {
			t.Errorf("the code has the header %s: describe it in headerGroups of reference_test.go", name)
		}
	}
	compareReference(t, "headers", b.String())
}

// compareReference compares the generated part of a page in docs/reference.
func compareReference(t *testing.T, name, part string) {
	t.Helper()
	comparePart(t, "docs/reference/"+name+".md", "<!-- "+name+": generated by "+updateReference+" -->\n", "<!-- "+name+": end -->", part, updateReference)
}

// TestReferenceIsWhole: docs/reference has no page that nothing keeps up to date.
func TestReferenceIsWhole(t *testing.T) {
	pages, err := os.ReadDir("docs/reference")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile("docs/reference/" + page.Name())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), ": generated by "+updateReference+" -->\n") {
			t.Errorf("docs/reference/%s has no generated part", page.Name())
		}
	}
}
