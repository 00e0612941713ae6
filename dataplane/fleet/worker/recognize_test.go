package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// process makes the fake answer like a process of SGLang that was started for a model.
func (f *fake) process(started float64, model string) {
	f.answers["/server_info"] = fmt.Sprintf(
		`{"version":"0.5.23","page_size":16,"model_path":"/models/%s","served_model_name":"%[1]s","startup_time":{"tokenizer_e2e":%g}}`, model, started)
	f.serves(model)
}

// serves makes /v1/models name a model.
func (f *fake) serves(model string) {
	f.answers["/v1/models"] = fmt.Sprintf(`{"data":[{"id":%q,"parent":null,"max_model_len":64}]}`, model)
}

// TestNamesStayWithTheProcess: SGLang shows the path after POST /update_weights_from_disk, in
// /v1/models alone.
func TestNamesStayWithTheProcess(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(time.Second)
		require.Equal(t, []string{"tiny"}, b.worker.Info().Models)
		b.fake.with(func() { b.fake.serves("/new/weights") })
		b.after(2 * time.Second)
		require.Equal(t, []string{"tiny", "/new/weights"}, b.worker.Info().Models)
		b.want(worker.Ready, "up")

		// The network fails for a while: it is taken for dead, and is the same process.
		b.fake.with(func() { b.fake.serves("/newest/weights") })
		b.fake.set(refusing)
		b.fake.cut(func() {})
		b.after(time.Second)
		b.fake.set(up)
		b.after(time.Second)
		b.want(worker.Ready, "up", "down", "up")
		require.Equal(t, []string{"tiny", "/new/weights", "/newest/weights"}, b.worker.Info().Models)

		// A process that is started anew has only its own.
		b.fake.cut(func() { b.fake.process(21.25, "tiny") })
		b.after(time.Second)
		b.want(worker.Ready, "up", "down", "up", "down", "up")
		require.Equal(t, []string{"tiny"}, b.worker.Info().Models)
	})
}

// TestNamesOfAProcessAreBounded: weights may be loaded every minute for weeks.
func TestNamesOfAProcessAreBounded(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		last := ""
		for i := range 100 {
			last = fmt.Sprintf("/weights/%d", i)
			b.fake.with(func() { b.fake.serves(last) })
			b.after(3 * time.Second)
		}
		names := b.worker.Info().Models
		require.Len(t, names, 64)
		require.Equal(t, "tiny", names[0])
		require.Equal(t, last, names[63])
		b.want(worker.Ready, "up")
	})
}

// TestNamesBeforeTheRouter: a router that starts after the change takes the name from the
// arguments.
func TestNamesBeforeTheRouter(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny"); f.serves("/new/weights") }, func(b *bench) {
		b.after(time.Second)
		require.Equal(t, []string{"tiny", "/new/weights"}, b.worker.Info().Models)
	})
}

// TestAnotherProcessAtTheURL: no probe sees the port closed, and no time passes until the new
// process is known.
func TestAnotherProcessAtTheURL(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(1100 * time.Millisecond)
		b.fake.cut(func() { b.fake.process(18.5, "dear") })
		b.after(0)
		b.want(worker.Ready, "up", "down", "up")
		require.Equal(t, []string{"dear"}, b.worker.Info().Models)
	})
}

// TestAnotherProcessThatStarts is not chosen until it describes itself.
func TestAnotherProcessThatStarts(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(1100 * time.Millisecond)
		b.fake.cut(func() { b.fake.process(18.5, "dear"); b.fake.hang["/server_info"] = true })
		b.after(time.Second)
		require.NotEqual(t, worker.Ready, b.worker.State())
		b.fake.with(func() { b.fake.hang["/server_info"] = false })
		b.fake.set(up)
		b.after(10 * time.Second)
		b.want(worker.Ready, "up", "down", "up")
		require.Equal(t, []string{"dear"}, b.worker.Info().Models)
	})
}

// TestAnotherProcessUnheard: a proxy before the worker keeps the connection. The poller's next
// look finds it.
func TestAnotherProcessUnheard(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(1100 * time.Millisecond)
		b.fake.with(func() { b.fake.process(18.5, "dear") })
		b.after(1100 * time.Millisecond)
		b.want(worker.Ready, "up", "down", "up")
		require.Equal(t, []string{"dear"}, b.worker.Info().Models)
	})
}

// TestAnotherProcessBehindAProxy: a proxy keeps the connection and answers 503, or nothing in time,
// while the engine behind it is started anew with the same arguments.
func TestAnotherProcessBehindAProxy(t *testing.T) {
	for name, meanwhile := range map[string]mode{"503": starting, "nothing": hanging} {
		t.Run(name, func(t *testing.T) {
			watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
				b.after(1100 * time.Millisecond)
				b.fake.set(meanwhile)
				b.after(5 * time.Second)
				b.fake.with(func() { b.fake.process(18.5, "tiny") })
				b.fake.set(up)
				b.after(3 * time.Second)
				b.want(worker.Ready, "up", "down", "up")

				b.fake.set(meanwhile)
				b.after(5 * time.Second)
				b.fake.set(up)
				b.after(3 * time.Second)
				b.want(worker.Ready, "up", "down", "up") // the same process
			})
		})
	}
}

// TestProcessThatDescribesItselfAnew: releases without a start time name two processes alike that have
// one seed. What no process changes while it runs tells them apart: a restart with another page, a
// smaller pool or more ranks begins with an empty cache of another shape.
func TestProcessThatDescribesItselfAnew(t *testing.T) {
	const events = `"kv_events":{"publisher":"zmq","endpoint_host":"*","endpoint_port_base":5557,"block_size":16}`
	for name, change := range map[string][2]string{
		"page":             {`"page_size":16`, `"page_size":64`},
		"ranks":            {`"dp_size":1`, `"dp_size":2`},
		"GPUs":             {`"tp_size":1`, `"tp_size":2`},
		"a smaller pool":   {`"max_total_num_tokens":4096`, `"max_total_num_tokens":2048`},
		"another port":     {`"endpoint_port_base":5557`, `"endpoint_port_base":5657`},
		"events no longer": {events, `"kv_events":null`},
	} {
		for _, seed := range []string{`"random_seed":1,`, ""} {
			t.Run(name+", "+seed, func(t *testing.T) {
				info := `{` + seed + `"page_size":16,"dp_size":1,"tp_size":1,"max_total_num_tokens":4096,` + events + `}`
				watch(t, func(f *fake) { f.answers["/server_info"] = info }, func(b *bench) {
					b.after(1100 * time.Millisecond)
					b.want(worker.Ready, "up")
					b.fake.cut(func() {}) // the same process
					b.after(3 * time.Second)
					b.want(worker.Ready, "up")
					b.fake.cut(func() { b.fake.answers["/server_info"] = strings.Replace(info, change[0], change[1], 1) })
					b.after(3 * time.Second)
					b.want(worker.Ready, "up", "down", "up")
					b.fake.cut(func() { // busy schedulers leave parts out
						b.fake.answers["/server_info"] = strings.Replace(b.fake.answers["/server_info"], `"max_total_num_tokens"`, `"no_number"`, 1)
					})
					b.after(3 * time.Second)
					b.want(worker.Ready, "up", "down", "up")
				})
			})
		}
	}
}

// TestDoubtOfARequest: a failed request has the process recognized, though the probes'
// connection still stands.
func TestDoubtOfARequest(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(1100 * time.Millisecond)
		b.fake.with(func() { b.fake.process(18.5, "dear") })
		b.worker.Suspect()
		b.after(0)
		b.want(worker.Ready, "up", "down", "up")
	})
}

// TestBusyProcessStaysReady: the scheduler is in a long batch when the connection is lost, and
// the model is the same.
func TestBusyProcessStaysReady(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.after(1100 * time.Millisecond)
		b.fake.cut(func() { b.fake.hang["/server_info"] = true })
		b.after(time.Second)
		b.want(worker.Ready, "up")
		b.fake.with(func() { b.fake.hang["/server_info"] = false })
		b.fake.set(up) // wakes hanging requests
		b.after(10 * time.Second)
		b.want(worker.Ready, "up")
	})
}

// TestServerThatClosesEachConnection is recognized now and then, and otherwise left in peace.
func TestServerThatClosesEachConnection(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny"); f.closes = true }, func(b *bench) {
		b.after(time.Minute)
		b.want(worker.Ready, "up")
		asked := b.fake.got("/server_info")
		require.Less(t, asked, 60, "questions a minute")
		b.fake.with(func() { b.fake.process(18.5, "dear") })
		b.after(3 * time.Second)
		b.want(worker.Ready, "up", "down", "up")
	})
}

// TestThirdProcessAtTheURL comes so soon after the second that its doubt has to wait, but not
// for the next probe.
func TestThirdProcessAtTheURL(t *testing.T) {
	watch(t, func(f *fake) { f.process(17.5, "tiny") }, func(b *bench) {
		b.registry.Configure(func(c *worker.Config) { c.Interval = time.Hour })
		b.worker.Probe()
		b.after(1100 * time.Millisecond)
		b.fake.cut(func() { b.fake.process(18.5, "dear") })
		b.after(10 * time.Millisecond)
		require.Equal(t, []string{"dear"}, b.worker.Info().Models)
		b.fake.cut(func() { b.fake.process(19.5, "third") })
		b.after(100 * time.Millisecond)
		require.Equal(t, []string{"third"}, b.worker.Info().Models)
		b.want(worker.Ready, "up", "down", "up", "down", "up")
	})
}

// TestVocabularyOfABusyProcess: a process that was too busy to tell its vocabulary is asked
// again, and not for ever.
func TestVocabularyOfABusyProcess(t *testing.T) {
	watch(t, func(f *fake) {
		f.answers["/server_info"] = `{"version":"0.5.23","page_size":16,"model_path":"/nowhere"}`
	}, func(b *bench) {
		b.after(time.Hour)
		require.Zero(t, b.worker.Info().Vocabulary)
		require.LessOrEqual(t, b.fake.got("/generate"), 5)
	})
	watch(t, func(f *fake) {
		f.answers["/server_info"] = `{"version":"0.5.23","page_size":16,"model_path":"/nowhere"}`
	}, func(b *bench) {
		b.after(time.Second)
		require.Zero(t, b.worker.Info().Vocabulary)
		b.fake.with(func() {
			b.fake.answers["/generate"] = `{"error":{"message":"logit_bias must has keys in [0, 1023], got -1."}}`
			b.fake.statuses["/generate"] = 400
		})
		b.after(time.Minute)
		require.Equal(t, 1024, b.worker.Info().Vocabulary)
		b.want(worker.Ready, "up")
	})
}

// TestLivesAtOneURL: a URL may get an engine of any other kind. Nothing of the one before is left,
// whether its connections end or a proxy keeps them and answers 503 for a while.
func TestLivesAtOneURL(t *testing.T) {
	const (
		info = `{%s"version":"0.5.23","page_size":16,"model_path":"/m/tiny","served_model_name":"tiny","dp_size":1,` + // of two alike the first counts
			`"max_total_num_tokens":1000,"disaggregation_mode":"null","disable_radix_cache":false,"random_seed":7}`
		names = `{"data":[{"id":%q,"max_model_len":%d}]}`
	)
	tests := []struct {
		name, more, model string
		length            int
		is                func(w *worker.Worker) bool
	}{
		{"another model", `"served_model_name":"dear",`, "dear", 64, func(w *worker.Worker) bool { return len(w.Info().Models) == 1 && w.Info().Model() == "dear" }},
		{"another page size", `"page_size":64,`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().PageSize == 64 }},
		{"ranks appear", `"dp_size":4,`, "tiny", 64, func(w *worker.Worker) bool { return len(w.Ranks()) == 4 }},
		{"prefill", `"disaggregation_mode":"prefill","disaggregation_bootstrap_port":9000,`, "tiny", 64, func(w *worker.Worker) bool {
			return w.Role() == worker.RolePrefill && w.Bootstrap().Port == 9000
		}},
		{"decode", `"disaggregation_mode":"decode",`, "tiny", 64, func(w *worker.Worker) bool { return w.Role() == worker.RoleDecode }},
		{"a longer context", `"context_length":128,`, "tiny", 128, func(w *worker.Worker) bool { return w.Info().MaxLen == 128 }},
		{"another pool", `"max_total_num_tokens":2000,`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().MaxTokens == 2000 }},
		{"events", `"kv_events":{"publisher":"zmq","endpoint_port_base":5557,"block_size":16,"dp_size":1},`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().Events != nil }},
		{"no cache", `"disable_radix_cache":true,`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().NoCache }},
		{"a cache report", `"enable_cache_report":true,`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().CacheReport }},
		{"another tokenizer", `"chat_template":"/other.jinja",`, "tiny", 64, func(w *worker.Worker) bool { return w.Info().Tokenizer.ChatTemplate == "/other.jinja" }},
	}
	for _, tt := range tests {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/proxied=%v", tt.name, proxied), func(t *testing.T) {
				start := func(f *fake, more, model string, length int) {
					f.answers["/server_info"] = fmt.Sprintf(info, more)
					f.answers["/v1/models"] = fmt.Sprintf(names, model, length)
				}
				watch(t, func(f *fake) { start(f, "", "tiny", 64); f.answers["/route"] = "" }, func(b *bench) {
					b.after(time.Second)
					old := b.worker.Info()
					next := func() { start(b.fake, tt.more, tt.model, tt.length) }
					if proxied {
						b.fake.set(starting)
						b.after(5 * time.Second)
						b.fake.with(next)
						b.fake.set(up)
					} else {
						b.fake.cut(next)
					}
					b.after(3 * time.Second)
					require.True(t, tt.is(b.worker), "%+v", b.worker.Info())
					require.NotSame(t, old, b.worker.Info())
				})
			})
		}
	}
}

// TestDescriptionsThatComeLater: what answers before the worker does, for its URL, is not taken for it for
// ever: a gateway's 404 or page, a refusal, an error.
func TestDescriptionsThatComeLater(t *testing.T) {
	for name, first := range map[string]func(f *fake){
		"404":            func(f *fake) { f.statuses["/server_info"] = 404 },
		"404, no models": func(f *fake) { f.statuses["/server_info"], f.statuses["/v1/models"] = 404, 404 },
		"429":            func(f *fake) { f.statuses["/server_info"] = 429 },
		"503":            func(f *fake) { f.statuses["/server_info"] = 503 },
		"401":            func(f *fake) { f.statuses["/server_info"] = 401 },
		"a page":         func(f *fake) { f.answers["/server_info"] = "<html>starting</html>" },
		"{}":             func(f *fake) { f.answers["/server_info"] = "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, first, func(b *bench) {
				b.after(time.Minute)
				asked := b.fake.got("/server_info")
				require.Less(t, asked, 300)
				b.fake.with(func() {
					clear(b.fake.statuses)
					b.fake.process(17.5, "tiny")
				})
				b.after(15 * time.Second)
				require.Equal(t, worker.Ready.String(), b.worker.State().String(), b.worker.LastError())
				info := b.worker.Info()
				require.Equal(t, 16, info.PageSize)
				require.Equal(t, "tiny", info.Model())
				require.Empty(t, info.Engine)
				require.NotZero(t, info.Process)
			})
		})
	}
}
