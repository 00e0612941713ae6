package sim

import (
	"net/http"
	"regexp"
	"testing"
)

// started holds the fields that differ between two processes.
func started(serverInfo []byte) string {
	return string(regexp.MustCompile(`"random_seed":\d+,"startup_time":\{[^}]*\}[^}]*\}`).Find(serverInfo))
}

// TestUpdateWeights: as in SGLang 0.5.23, the path becomes the name in /v1/models and
// /model_info, the cache is empty, and /server_info stays.
func TestUpdateWeights(t *testing.T) {
	w := startWorker(t, fast())
	ask := func() int {
		return decode[struct {
			Meta struct {
				Cached int `json:"cached_tokens"`
			} `json:"meta_info"`
		}](t, post(t, w, "/generate", `{"input_ids":[3,4,5,6,7,8,9,10,11],"sampling_params":{"max_new_tokens":1}}`)).Meta.Cached
	}
	if ask(); ask() != 8 {
		t.Fatal("the prompt is not cached")
	}
	before := get(t, w, "/server_info")
	if r := post(t, w, "/update_weights_from_disk", `{"model_path":"/new","weight_version":"7"}`); r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if r := post(t, w, "/update_weights_from_disk", `{}`); r.status != http.StatusBadRequest {
		t.Errorf("without a path: status %d, want 400", r.status)
	}
	if n := ask(); n != 0 {
		t.Errorf("%d tokens are cached of the old weights", n)
	}
	if string(get(t, w, "/server_info").body) != string(before.body) {
		t.Error("/server_info has changed")
	}
	list := decode[struct{ Data []struct{ ID string } }](t, get(t, w, "/v1/models"))
	info := decode[struct {
		Path    string `json:"model_path"`
		Version string `json:"weight_version"`
	}](t, get(t, w, "/model_info"))
	if list.Data[0].ID != "/new" || info.Path != "/new" || info.Version != "7" {
		t.Errorf("models %+v, info %+v", list, info)
	}
	if r := post(t, w, "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":1}`); r.status != http.StatusOK || w.WrongModelRequests() != 0 {
		t.Errorf("the served name: status %d, %d strangers", r.status, w.WrongModelRequests())
	}
	one := started(before.body)
	w.Faults().Replace("other")
	for end := one; end == one || end == ""; {
		if r, err := trySend(w, http.MethodGet, "/server_info", "", nil); err == nil && r.status == http.StatusOK {
			end = started(r.body)
		}
	}
	post(t, w, "/v1/completions", `{"model":"tiny","prompt":"a","max_tokens":1}`)
	if w.WrongModelRequests() != 1 {
		t.Errorf("%d strangers, want 1", w.WrongModelRequests())
	}
}
