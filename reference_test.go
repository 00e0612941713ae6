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
		{"/open_session", "POST", "opens a session of SGLang's at a worker by load, which its requests to `/generate` go to (`session_params`)"},
		{"/close_session", "POST", "closes the client's own session"},
		{"/api/chat", "POST", "Ollama's chats"},
		{"/api/generate", "POST", "Ollama's texts"},
		{"/api/show", "POST", "Ollama's description of a model, by a worker"},
		{"/api/tags", "GET", "the models that are served, for Ollama's clients"},
		{"/v1/models", "GET", "the models that are served, answered by the router"},
		{"/v1/models/{name}", "GET", "one model, answered by a worker"},
		{"/v1/embeddings", "POST", "passed to a worker by load"},
		{"/v1/rerank", "POST, PUT", "passed to a worker by load"},
		{"/rerank", "POST", "passed to a worker by load"},
		{"/v1/score", "POST", "passed to a worker by load"},
		{"/v1/classify", "POST", "passed to a worker by load"},
		{"/classify", "POST, PUT", "passed to a worker by load"},
		{"/encode", "POST, PUT", "passed to a worker by load"},
		{"/v1/audio/transcriptions", "POST", "passed to a worker of the form's model by load"},
		{"/parse_function_call", "POST", "calls of tools in a text, by a worker's parser"},
		{"/separate_reasoning", "POST", "a text without its reasoning, by a worker's parser"},
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
		{"/healthz", "GET", "the same, as Kubernetes' servers have it"},
		{"/liveness", "GET", "the same"},
		{"/ping", "GET", "the same, of SageMaker"},
		{"/ready", "GET", "200 when some model can be served, without a key"},
		{"/readyz", "GET", "the same, as Kubernetes' servers have it"},
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
		{"/list_workers", "GET", "the workers' URLs, as sglang-router has them"},
		{"/add_worker", "POST", "`?url=`: the same as POST `/workers`"},
		{"/remove_worker", "POST", "`?url=`: the same as DELETE `/workers`"},
		{"/get_loads", "GET", "tokens of the KV pool that each worker's requests hold or wait for, as sglang-router has them; -1 of a worker that is not ready"},
		{"/v1/loads", "GET", "the same"},
		{"/explain", "POST", "every candidate of a prompt with its overlap, load, trust and cost; no worker gets the prompt"},
		{"/flush_cache", "GET, POST", "empties the prefix caches of all workers, for benchmarks between runs; no browser's GET without an operator key"},
		{"/load_lora_adapter", "POST", "loads an adapter at all workers: `{\"lora_name\": …, \"lora_path\": …}`; 502 with the errors where one fails"},
		{"/unload_lora_adapter", "POST", "unloads it at all workers"},
		{"/start_profile", "GET, POST", "starts the profiler of all workers, with SGLang's settings in the body"},
		{"/stop_profile", "GET, POST", "stops it"},
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

// theirEndpoints are the paths of sglang-router, of its older versions, and of SGLang, all that
// bench/engines/testdata/routes.txt has. How is the owner of the path; does begins with a path of
// endpointGroups and the worker that answers, or else with "no".
var theirEndpoints = []described{
	{"/generate", "both", "/generate: the worker where its answer begins first"},
	{"/v1/chat/completions", "both", "/v1/chat/completions: the worker where its answer begins first"},
	{"/v1/completions", "both", "/v1/completions: the worker where its answer begins first"},
	{"/v1/responses", "both", "/v1/responses: the worker where its answer begins first"},
	{"/v1/responses/{id}", "both", "/v1/responses/{id}: the worker that has it; no DELETE"},
	{"/v1/responses/{id}/cancel", "both", "/v1/responses/{id}/cancel: the worker that has it"},
	{"/v1/responses/{id}/input_items", "router", "no: only the router's own history has them"},
	{"/v1/conversations, /v1/conversations/{id}, /v1/conversations/{id}/items, /v1/conversations/{id}/items/{item}", "router", "no: clients send what was said, or `previous_response_id`"},
	{"/v1/messages", "SGLang", "/v1/messages: the worker where its answer begins first"},
	{"/v1/messages/count_tokens", "SGLang", "/v1/messages/count_tokens: a worker"},
	{"/v1/embeddings", "both", "/v1/embeddings: a worker by load"},
	{"/v1/rerank", "both", "/v1/rerank: a worker by load"},
	{"/v1/classify", "both", "/v1/classify: a worker by load"},
	{"/v1/score", "SGLang", "/v1/score: a worker by load"},
	{"/encode, /classify", "SGLang", "/encode, /classify: a worker by load"},
	{"/v1/decisions, /v1/systemone", "SGLang", "no: their `chat_template_kwargs` may bring a template, which can stop an engine; /v1/score scores answers"},
	{"/v1/audio/transcriptions", "SGLang", "/v1/audio/transcriptions: a worker by load"},
	{"/v1/realtime", "SGLang", "no: a WebSocket, which stays with one worker: connect to it"},
	{"/v1/tokenize, /tokenize", "both", "/v1/tokenize, /tokenize: a worker"},
	{"/v1/detokenize, /detokenize", "both", "/v1/detokenize, /detokenize: a worker"},
	{"/v1/models/{model}", "SGLang", "/v1/models/{name}: a worker that serves it"},
	{"/v1/models", "both", "/v1/models: the router, of all workers"},
	{"/health", "both", "/health: the router"},
	{"/health_generate", "both", "/health_generate: a worker"},
	{"/liveness", "router", "/liveness: the router"},
	{"/readiness", "router", "/readiness: the router"},
	{"/ready", "SGLang", "/ready: the router"},
	{"/", "SGLang", "/console: where operators use the clients' address, else HEAD alone, which Ollama's client sends first"},
	{"/ping", "SGLang", "/ping: the router"},
	{"/invocations", "SGLang", "no: /v1/chat/completions is the same"},
	{"/vertex_generate", "SGLang", "no: /generate is the same without Vertex AI's frame"},
	{"/model_info, /get_model_info", "both", "/model_info, /get_model_info: a worker"},
	{"/server_info, /get_server_info", "both", "/server_info, refused: an engine's answer has its keys"},
	{"/abort_request", "SGLang", "/abort_request: the workers that have it, of the client's own requests"},
	{"/parse/function_call", "router", "/parse_function_call: a worker, under SGLang's name"},
	{"/parse/reasoning", "router", "/separate_reasoning: a worker, under SGLang's name"},
	{"/parse_function_call", "SGLang", "/parse_function_call: a worker"},
	{"/separate_reasoning", "SGLang", "/separate_reasoning: a worker"},
	{"/open_session, /close_session", "SGLang", "/open_session, /close_session: the worker that has the session, of the client's own; of a name that the client chose only one router knows it"},
	{"/api/chat, /api/generate", "SGLang", "/api/chat, /api/generate: the worker where its answer begins first; no pair"},
	{"/api/show", "SGLang", "/api/show: a worker that serves the model"},
	{"/api/tags", "SGLang", "/api/tags: the router, of all workers"},
	{"/list_workers", "router, older", "/list_workers: the router"},
	{"/add_worker", "router, older", "/add_worker: the router"},
	{"/remove_worker", "router, older", "/remove_worker: the router, once its requests have ended"},
	{"/workers", "router", "/workers: the router"},
	{"/workers/{id}", "router", "no: /workers, /workers/drain and /workers/cordon name a worker by its URL"},
	{"/get_loads, /v1/loads", "both", "/get_loads, /v1/loads: the router, by what it knows"},
	{"/flush_cache", "both", "/flush_cache: all workers; a browser's GET only with an operator key, since a link in a page must flush nothing"},
	{"/load_lora_adapter", "SGLang", "/load_lora_adapter: all workers"},
	{"/unload_lora_adapter", "SGLang", "/unload_lora_adapter: all workers"},
	{"/start_profile, /stop_profile", "SGLang", "/start_profile, /stop_profile: all workers"},
	{"/update_weights_from_disk, /update_weights_from_tensor, /update_weights_from_distributed, /update_weights_from_ipc, /update_weight_version, /begin_weight_update, /end_weight_update, /init_weights_update_group, /destroy_weights_update_group, /get_weights_by_name, /weights_checker, /init_weights_send_group_for_remote_instance, /send_weights_to_remote_instance, /get_remote_instance_transfer_engine_info, /remote_instance_transfer_engine_info, /load_lora_adapter_from_tensors", "SGLang", "no: weights are of each worker: ask it, drained with /workers/drain"},
	{"/pause_generation, /continue_generation, /release_memory_occupation, /resume_memory_occupation, /pd_role_switch, /scale_elastic_ep, /is_scaling_elastic_ep, /set_internal_state, /slow_down", "SGLang", "no: ask each worker, drained with /workers/drain"},
	{"/configure_logging, /set_trace_level, /freeze_gc, /dumper/{method}, /start_expert_distribution_record, /stop_expert_distribution_record, /dump_expert_distribution_record", "SGLang", "no: ask the worker in question"},
	{"/add_external_corpus, /remove_external_corpus, /list_external_corpora, /hicache/storage-backend, /hicache/storage-backend/clear, /get_hicache_l3_cache_layout", "SGLang", "no: ask each worker: the router knows what each holds by its events"},
	{"/metrics", "both", "/metrics: the router"},
	{"/engine_metrics", "router", "no: Prometheus reads those of the workers at the workers"},
	{"/v1/tokenizers, /v1/tokenizers/{id}, /v1/tokenizers/{id}/status", "router", "no: the workers' tokenizers are found by themselves, or with `--model-path`"},
	{"/wasm, /wasm/{id}", "router", "no: there are no plugins"},
	{"/ha/status, /ha/health, /ha/workers, /ha/workers/{id}, /ha/policies, /ha/policies/{id}, /ha/config, /ha/config/{key}", "router", "no: /status has the cluster and its routers"},
	{"/ha/rate-limit, /ha/rate-limit/stats", "router", "no: each key has its limits, which all routers keep together"},
	{"/ha/shutdown", "router", "no: SIGTERM drains the router"},
}

var (
	routerFolders = []string{"dataplane/request", "dataplane/admin", "dataplane/admin/console", "dataplane/operator"}
	pathWord      = regexp.MustCompile(`(?:^|\B)(/[a-z][a-z0-9_/{}-]*)`)
	pathPart      = regexp.MustCompile(`{[a-z_:]+}`)
	endpointName  = regexp.MustCompile(`^/[a-z][a-z0-9_/]*$`)
	// notServed are literals of these folders that look like paths of an API.
	notServed = []string{"/api/", "/proc", "/v1/messages/", "/sys/class/infiniband"}
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
	{"Of Hugging Face's hub, with a model of it as `--model-path`", []described{
		{"X-Repo-Commit", "40 digits", "commit of the file"},
		{"X-Linked-Etag", "checksum", "of a file that another host has, instead of its `ETag`"},
		{"X-Linked-Size", "bytes", "of the same"},
		{"X-Error-Code", "name", "GatedRepo, RepoNotFound, RevisionNotFound or EntryNotFound"},
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
	b.WriteString("## Those of sglang-router and SGLang\n\n| path | whose | here |\n| --- | --- | --- |\n")
	ours := known[strings.Join(routerFolders, " ")]
	for _, row := range theirEndpoints {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", pathWord.ReplaceAllString(row.name, "`$1`"), row.how, pathWord.ReplaceAllString(row.does, "`$1`"))
		named := pathWord.FindAllStringSubmatch(row.does, -1)
		for _, path := range named {
			if !ours[path[1]] {
				t.Errorf("%s is said to be answered by %s, which nothing serves", row.name, path[1])
			}
		}
		first, _, _ := strings.Cut(row.name, ",")
		if refused := strings.HasPrefix(row.does, "no:"); refused && ours[first] || !refused && len(named) == 0 {
			t.Errorf("%s: %q is not what endpointGroups say", row.name, row.does)
		}
	}
	b.WriteString("\n")
	compareReference(t, "endpoints", b.String())
}

// TestTheirEndpoints: each path of SGLang and of sglang-router is served here, or has its reason.
func TestTheirEndpoints(t *testing.T) {
	told := map[string]string{} // whose, by path
	for _, row := range theirEndpoints {
		for path := range strings.SplitSeq(row.name, ", ") {
			told[pathPart.ReplaceAllString(path, "{}")] = row.how
		}
	}
	text, err := os.ReadFile("bench/engines/testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		whose, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if whose == "#" {
			continue
		}
		if by := told[pathPart.ReplaceAllString(path, "{}")]; by != whose && by != "both" {
			t.Errorf("%s of %s has no row in theirEndpoints (it is said to be of %q)", path, whose, by)
		}
	}
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
