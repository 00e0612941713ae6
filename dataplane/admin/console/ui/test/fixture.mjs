// A router's answers in four states, for the browser test: empty, normal, failing and many (1,000
// workers). Numbers come from a generator with a fixed seed and move with each answer.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";

const files = {
  "/console": ["text/html; charset=utf-8", "index.html"],
  "/console/console.js": ["text/javascript; charset=utf-8", "console.js"],
  "/console/console.css": ["text/css; charset=utf-8", "console.css"],
};
// The header is the product's own.
const policy = [...readFileSync(new URL("../../page.go", import.meta.url), "utf8").match(/ContentSecurityPolicy = ("[^;]*(?:.|\n)*?")\n\n/)[1].matchAll(/"([^"]*)"/g)].map(m => m[1]).join("");

function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const load = () => ({
  source: "published", age_seconds: 0.2, in_flight: 0, waiting: 0, pending_tokens: 0, used_tokens: 0, pool_tokens: 400000, max_running: 256, prefill_tokens_per_second: 0,
  own_in_flight: 0, own_pending_tokens: 0, reserved_tokens: 0, reports_too_old: false, predicted_wait_s: 0,
});

function worker(i, state, beat) {
  const r = random(i + 1), move = random(i * 7919 + beat);
  const dead = state === "failing" || (state === "many" && i % 29 === 3);
  const url = `http://10.${20 + (i >> 8)}.${i & 255}.${1 + (i % 7)}:30000`;
  const speed = Math.round(9000 + 12000 * r()), flying = dead ? 0 : Math.round(3 + 20 * move()), pending = Math.round(flying * 900 * move());
  const used = Math.round(400000 * (0.2 + 0.6 * move()));
  const prompt = Math.round(1e6 + 4e7 * r()) + beat * 1000, hit = Math.round(prompt * (0.35 + 0.5 * r()));
  const w = {
    id: url, url, rank: 0, role: state === "many" && i % 3 === 0 ? "prefill" : state === "many" && i % 3 === 1 ? "decode" : "regular",
    state: dead ? "dead" : state === "many" && i % 41 === 5 ? "draining" : state === "many" && i % 53 === 7 ? "slow" : "ready", state_seconds: 20 + 9000 * r() + beat,
    sources: ["file"], model: i % 2 ? "meta-llama/Llama-3.1-70B-Instruct" : "Qwen/Qwen2.5-7B-Instruct", version: "0.5.23", page_size: 64,
    in_flight: flying, pending_tokens: pending, requests: Math.round(prompt / 2500), requests_per_second: dead ? 0 : flying / 2, failed: i % 17 === 0 ? 3 : 0, share: 0.1, prompt_tokens: prompt, hit_tokens: hit, hit_rate: hit / prompt,
    overlap: "events", blocks: Math.round(2e5 * r()), approx_tokens: 0, sessions: Math.round(40 * r()), live_tokens: 120000 * r(),
    events: { state: dead ? "connecting" : "live", sequence: 1000 + beat, lag_ms: 3, batches: 900 + beat, gaps: 0, lost: 0, replayed: 0, restarts: 0, mutes: 0, malformed: 0, unknown_events: 0, unknown_fields: 0, unknown_parents: 0, unknown_removals: 0, beyond_budget: 0 },
    breaker: { state: "closed", faults: 0, opened: 0 },
    load: { ...load(), in_flight: flying, waiting: Math.round(flying / 5), pending_tokens: pending, used_tokens: used, prefill_tokens_per_second: speed, own_in_flight: flying, reserved_tokens: 12000, predicted_wait_s: pending / speed },
    trust: { credit: 1, accuracy: 0.98, compared: 64, silent_seconds: 0.4, check_seconds: 10 },
    gpus: { state: i % 2 ? "healthy" : "unknown", weight: 1, ...(i % 2 && { free_bytes: 3e9, age_seconds: 1 }) },
  };
  if (dead) w.error = `dial tcp ${url.slice(7)}: connect: connection refused`;
  if (w.state === "draining") w.drain = ["operator"];
  if (state === "many" && i % 97 === 11) w.trust.events_set_aside = { why: "its answers report fewer cached tokens than its events told of", since: new Date(Date.now() - 400000).toISOString() };
  if (state === "many" && i % 101 === 15) w.gpus = { state: "degraded", weight: 0.7, reasons: ["GPU 3 throttles: 91 °C"], age_seconds: 1 };
  const concern = (kind, severity, text, advice, since_seconds) => ({ kind: "worker_" + kind, severity, subject: url, text: `${url} ${text}`, advice, ...(since_seconds && { since_seconds }) });
  const concerns = [];
  if (dead) concerns.push(concern("dead", "fault", `is dead: ${w.error}`, "Look at the engine's log and start it again, or take the worker off the list: warmpath remove URL.", w.state_seconds));
  if (w.state === "slow") concerns.push(concern("slow", "warning", "does not answer its probes in time", "Look at the load and the network of its machine.", w.state_seconds));
  if (w.gpus.state === "degraded") concerns.push(concern("gpu_degraded", "warning", "has degraded GPUs: " + w.gpus.reasons[0], "Fewer requests go there. Look at the cooling, power and links of the node."));
  if (w.trust.events_set_aside) concerns.push(concern("events_aside", "warning", "has its events set aside: " + w.trust.events_set_aside.why, "Answers tell what is cached meanwhile.", 400));
  if (w.state === "draining") concerns.push(concern("draining", "note", `is draining: operator: ${flying} requests in flight`, "It can be stopped once its requests have ended.", w.state_seconds));
  if (concerns.length) w.concerns = concerns;
  return w;
}

/** concerns are those of a router with these workers: of many with one, the router has one line. */
function concerns(state, workers) {
  const out = [];
  const add = (kind, severity, text, advice, more) => out.push({ kind, severity, text, advice, ...more });
  if (state === "empty") add("no_workers", "fault", "No workers: every request is refused", "Start the router with --worker, --discover or --cluster, or add a worker with POST /workers.");
  if (state === "failing") add("none_ready", "fault", `None of ${workers.length} workers is ready: requests are refused`, "Start the engines. What follows says what each lacks.", { since_seconds: 41 });
  const all = workers.flatMap(w => w.concerns ?? []);
  for (const [kind, many] of [["dead", "are dead"], ["slow", "do not answer their probes in time"], ["gpu_degraded", "have degraded GPUs"], ["events_aside", "have their events set aside"], ["draining", "are draining"]]) {
    const of = all.filter(c => c.kind === "worker_" + kind);
    if (of.length > 3) add("worker_" + kind, of[0].severity, `${of.length} workers ${many}; the latest is ${of[0].text.replace(/ (is|has|does) .*?(?=: |$)/, "")}`, of[0].advice, { since_seconds: of[0].since_seconds });
    else out.push(...of);
  }
  if (state === "failing") {
    add("errors_router", "fault", "480 requests failed at the router: no worker answered in the last 5 minutes", "The router's log and warmpath_errors_total tell why.");
    add("queue", "warning", "37 requests in the queue: all workers that could take them are full; 0.0 a second leave it", "If this lasts, add workers.", { since_seconds: 12.4 });
    add("source_failed", "warning", "The source " + hostile + " of workers cannot answer: no such host", "Its last workers stay in use.", { subject: hostile });
    add("operator_refused", "note", "14 requests to the operator API refused since the start: 14 with a wrong key, 0 of foreign web pages", "The router's log names the clients of wrong keys.");
  }
  return out;
}

const counts = { empty: 0, normal: 8, failing: 6, many: 1000 };

function status(state, beat) {
  const workers = Array.from({ length: counts[state] }, (_, i) => worker(i, state, beat));
  const failing = state === "failing";
  return {
    version: "v0.1.0-fixture", uptime_seconds: 86400 * 3 + beat, policy: "kv", draining: false, concerns: concerns(state, workers), requests: state === "empty" ? 0 : 1234567 + beat * 40, in_flight: workers.reduce((a, w) => a + w.in_flight, 0),
    errors: failing ? 420 : 3, client_errors: 12, prompt_tokens: state === "empty" ? 0 : 9e9, hit_tokens: state === "empty" ? 0 : 5.4e9, hit_rate: state === "empty" ? 0 : 0.6, accuracy: 0.97, compared: 5000,
    index: { blocks: state === "empty" ? 0 : 5.2e6, nodes: 120000, bytes: state === "empty" ? 0 : 6e8, max_bytes: 4e9, evicted_blocks: 0 }, approx: { bytes: 0, max_bytes: 1e9, evictions: 0, accuracy: 0, compared: 0 },
    ...(state !== "empty" && { queue: failing ? { waiting: 37, clients: 4, oldest_seconds: 12.4, full_models: 1, rate: 0, passed: 10, mean_wait_seconds: 1, refused: 9, gone: 2 } : { waiting: 0, clients: 0, oldest_seconds: 0, full_models: 0, rate: 0, passed: 0, mean_wait_seconds: 0, refused: 0, gone: 0 } }),
    huge_page_bytes: 0, workers, ...(state === "normal" && { lint: { ...lint, findings: [] } }), ...((failing || state === "many") && { lint }),
    models: state === "empty" ? [] : ["Qwen/Qwen2.5-7B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"].map(model => ({ model, names: [model], ready: !failing, ...(failing && { lacks: "no worker is ready" }) })),
    operator_refused: { no_key: failing ? 2 : 0, wrong_key: failing ? 14 : 0, foreign: 0 },
  };
}

function series(state, step, rows) {
  const r = random(step), now = Date.now() / 1000, s = { step_seconds: step, at: [] };
  const idle = state === "empty";
  const names = ["ttft_p50", "ttft_p95", "ttft_p99", "duration_p50", "duration_p95", "duration_p99", "itl_p50", "itl_p95", "itl_p99", "requests", "generated_tokens", "prompt_tokens", "hit_tokens", "hit_rate", "expected_hit_rate", "saved_seconds",
    "errors_busy", "errors_keys", "errors_client", "errors_worker", "errors_router", "errors_cut", "in_flight", "waiting", "workers", "workers_ready"];
  for (const name of names) s[name] = [];
  for (let i = 0; i < rows; i++) {
    const t = i / rows, broken = state === "failing" && t > 0.7, wave = 0.6 + 0.4 * Math.sin(6 * t) + 0.08 * r();
    const gone = idle || broken, value = v => (gone ? null : v);
    s.at.push(now - (rows - i) * step);
    const base = 0.12 + 0.1 * wave, prompt = 60000 * wave;
    const row = [value(base), value(base * 2.4), value(base * (4 + r())), value(base * 9), value(base * 16), value(base * 25), value(base * 0.1), value(base * 0.16), value(base * 0.4), idle ? 0 : broken ? 4 * r() : 30 * wave, gone ? 0 : 7000 * wave, gone ? 0 : prompt, gone ? 0 : prompt * 0.6,
      value(0.55 + 0.1 * wave), value(0.6 + 0.1 * wave), gone ? 0 : prompt * 0.6 * step / 12000, 0, broken ? Math.round(2 * r()) : 0, 0, 0, broken ? Math.round(20 * r()) : 0, broken && t < 0.72 ? 8 : 0,
      gone ? 0 : Math.round(40 * wave), broken ? Math.round(37 * r()) : 0, counts[state], broken ? 0 : counts[state]];
    names.forEach((name, k) => s[name].push(row[k]));
  }
  return s;
}

/** now is what the router tells of the last minutes. */
function now(state) {
  const gone = state === "empty" || state === "failing", value = v => (gone ? null : v);
  return { ttft_p50: value(0.2), ttft_p95: value(0.48), ttft_p99: value(0.9), itl_p50: value(0.02), itl_p95: value(0.03), itl_p99: value(0.08), requests: state === "empty" ? null : gone ? 3.1 : 27, prompt_tokens: value(54000),
    generated_tokens: value(6300), hit_rate: value(0.62), expected_hit_rate: value(0.66), errors: state === "empty" ? null : gone ? 480 : 0, saved_seconds: gone ? 0 : 2400 };
}

function explained(state, beat) {
  const ranks = status(state, beat).workers.map((w, i) => {
    const r = random(i + 99);
    const rank = { id: w.id, role: w.role, state: w.state, events: w.events.state, load: w.load, trust: w.trust, gpus: w.gpus };
    if (w.state !== "ready") return { ...rank, error: w.error, excluded: "its state is " + w.state };
    const cached = Math.round(2400 * r()), cost = { queue: 0.3 * r(), compute: (2400 - cached) / 12000, tier: i % 3 ? 0 : 0.02, batch: 0.03 * r(), pool: i % 5 ? 0 : 0.08, health: 0, later: 0.02 * r(), streams: 0.01, sessions: 0.05 * r() };
    const total = Object.values(cost).reduce((a, b) => a + b, 0);
    return { ...rank, overlap: { gpu: cached, host: 0, predicted: 0, credited: cached, source: "exact" }, cost: { ...cost, ttft: total - 0.03, total, score: total } };
  });
  const best = ranks.filter(r => r.cost).sort((a, b) => a.cost.total - b.cost.total)[0];
  if (best) best.winner = true;
  return { policy: "kv", seed: "12345678901234567", turn: 5, prompt: { model: "Qwen/Qwen2.5-7B-Instruct", tokens: 2400, exact: true }, ranks, ...(best ? { winner: best.id, why: "least cost" } : { error: "no worker is ready" }) };
}

// Names that a page which makes HTML of them would run.
export const hostile = '"><img src=x onerror=alert(1)><script>alert(2)</script>';

function recent(state, beat) {
  const workers = status(state, beat).workers.filter(w => w.state === "ready");
  return Array.from({ length: state === "empty" || !workers.length ? 0 : 64 }, (_, i) => {
    const number = 64 + beat - i, r = random(number), at = Math.floor(r() * workers.length), tokens = Math.round(200 + 9000 * r());
    return { number, turn: number * (state === "many" ? 40 : 1), at: new Date(Date.now() - i * 250).toISOString(), request: i === 3 ? hostile : `req-${number.toString(16)}`, model: workers[at].model, policy: "kv",
      tokens, exact: i % 3 > 0, cached: Math.round(tokens * r() * 0.9), candidates: workers.length, worker: workers[at].id, why: i % 4 ? "most of the prompt is cached here" : "lowest predicted time to first token",
      ...(i % 5 === 2 && { decode: workers[(at + 1) % workers.length].id, decode_why: "has room and holds the prefix" }), ...(i % 17 === 4 && { again: true }) };
  });
}

const story = "<|im_start|>system\nYou are a helpful assistant of the shop. " + "Answer in the customer's language. ".repeat(4);

/** hot are the common beginnings of recent prompts; some are of ids alone, held by nobody or hostile. */
function hot(state, beat) {
  const workers = status(state, beat).workers.filter(w => w.state === "ready");
  const prefixes = Array.from({ length: state === "empty" ? 0 : state === "many" ? 32 : 6 }, (_, i) => {
    const r = random(i + 31), tokens = Math.round(200 + 9000 * r()), held = Math.min(workers.length, i % 5 === 4 ? 0 : state === "many" ? 300 : 3);
    return { model: "Qwen/Qwen2.5-7B-Instruct", ...(i === 2 && { lora: hostile, salted: true }), requests: Math.max(2, 40 - 7 * i), tokens, exact: i !== 3, at: new Date(Date.now() - 4000 * i).toISOString(),
      ...(i % 3 === 1 ? { ids: [151644, 8948, 198, 2610, 525, 264] } : { text: i === 3 ? hostile : story + "… " + "order ".repeat(i) }),
      holders: workers.slice(0, Math.min(held, 8)).map((w, k) => ({ id: w.id, tokens: Math.round(tokens / (k + 1)), gpu: Math.round(tokens / (k + 2)), source: i === 3 ? "approximate" : "exact" })), held };
  });
  return { prompts: state === "empty" ? 0 : 64, since: new Date(Date.now() - 16000).toISOString(), prefixes, left_out: state === "many" ? 9 : 0 };
}

function whatIf(state) {
  const choices = state === "empty" ? 0 : 64, tokens = 1000 * choices;
  const one = (policy, share, ranks, most, same, made) => ({ policy, ...(made && { made }), same, cached: share * tokens, left: (1 - share) * tokens, ahead: 800 * choices, ranks, most });
  return { choices, tokens, left_out: state === "normal" ? 2 : 0, policies: choices ? [one("kv", 0.6, 5, 16, 64, true), one("round-robin", 0.2, 8, 8, 8), one("least-load", 0.25, 8, 9, 12), one("most-overlap", 0.62, 3, 40, 50)] : [] };
}

const lint = { prompts: 512, grouped: 480, tokens: 1.2e6, now: 0.08, then: 0.81, findings: [
  { model: "Qwen/Qwen2.5-7B-Instruct", prompts: 300, tokens: 2400, now: 0.02, then: 0.86, lost: 0.84, part: "system", offset: 14, before: 4, stable_after: 2010, changes: 1, kind: "time", values: ["2026-11-29 12:00:01"],
    example: "Today is «2026-11-29 12:00:01». You are a helpful assistant of the shop.", better: "You are a helpful assistant of the shop. … Today is «2026-11-29 12:00:01».", advice: "Put the time behind the instructions, or send the day alone." },
  { model: hostile, prompts: 12, tokens: 900, now: 0.1, then: 0.4, lost: 0.3, part: "prompt", offset: 0, before: 0, stable_after: 300, changes: 2, kind: "name", values: [hostile], example: "«" + hostile + "» asks:", better: "", advice: "Put the name behind the instructions." },
] };

const sizes = { empty: 0, normal: 4, failing: 3, many: 125 };

function link(i, j, state) {
  const r = random(i * 1000 + j), broken = state === "failing" && j === 1, slow = j % 7 === 3;
  if (j % 11 === 5) return { to: nodeName(j), path: "unknown", read: 0, write: 0, latency: 0, at: "0001-01-01T00:00:00Z", unknown: "the other end has no NIXL" };
  return { to: nodeName(j), path: "rdma", read: broken ? 0 : 2e10 * (1 + r()), write: broken ? 0 : 2e10 * (1 + r()), latency: 2e-5, at: new Date(Date.now() - 60000).toISOString(),
    ...(broken && { broken: "connection refused by " + hostile }), ...(slow && { slow: "1 of 4 rails" }) };
}

const nodeName = i => (i === 2 ? "gpu-002 " + hostile : `gpu-${String(i).padStart(3, "0")}.cluster.example`);

function node(i, state, withLinks) {
  const r = random(i + 5), dead = state === "failing" && i === 0, blind = i % 5 === 1;
  const state1 = k => (blind ? {} : dead && k === 3 ? { state: "dead", reasons: ["XID 79: the GPU has fallen off the bus"] } : i % 9 === 3 && k === 1 ? { state: "degraded", weight: 0.7, reasons: ["throttles: 91 °C", hostile] } : { state: "healthy", weight: 1 });
  const gpus = Array.from({ length: i % 6 === 2 ? 0 : 8 }, (_, k) => ({ uuid: `GPU-${i}-${k}`, index: k, name: "NVIDIA H200", ...(!blind && { used: Math.round(1.4e11 * r()), total: 1.5e11, links: 18, links_up: dead && k === 3 ? 0 : 18 }), health: state1(k) }));
  const url = k => worker((i * 8 + k) % counts[state], state, 1).url;
  return { name: nodeName(i), instance: "x", version: "v0.1.0-fixture", started: new Date(Date.now() - 86400000).toISOString(), control: `http://10.0.0.${i}:9000`, driver: gpus.length ? "ready" : "no library",
    workers: [0, 1].map(k => ({ url: k ? `http://10.99.0.${i}:1` : url(k), role: k ? "decode" : "prefill", model: "Qwen/Qwen2.5-7B-Instruct", gpus: gpus.slice(4 * k, 4 * k + 4).map(g => g.uuid), health: {} })),
    ...(gpus.length && { gpus }), ...(i % 3 !== 2 && { tier: { bytes: 2e12, used: Math.round(2e12 * r()), pages: 120000, endpoint: `10.0.0.${i}:9001`, speed: i % 2 ? 4e10 : 0 } }), drain: i === 1, cordon: i === 3,
    ...(withLinks && { links: Array.from({ length: sizes[state] }, (_, j) => j).filter(j => j !== i).map(j => link(i, j, state)) }), ...(i % 3 === 0 && { directory: { name: nodeName(i), pages: 119000, kinds: 2, known: i > 0, listed: true, silence: 0.4 } }) };
}

function nodes(state, name) {
  const all = Array.from({ length: sizes[state] }, (_, i) => i).filter(i => name === null || nodeName(i) === name);
  return { cluster: state !== "empty", up: state !== "failing", nodes: all.map(i => node(i, state, name !== null)) };
}

function links(state) {
  const all = [];
  for (let i = 0; i < sizes[state]; i++) for (let j = 0; j < sizes[state]; j++) if (i !== j) all.push({ from: nodeName(i), ...link(i, j, state), pairs: (i + j) % 3 });
  return { cluster: state !== "empty", links: all.slice(0, 1000), left_out: Math.max(0, all.length - 1000) };
}

/** serve listens on a free port of loopback. Its state may be changed, and the requests that change workers are kept. */
export async function serve() {
  const router = { state: "normal", changes: [], down: false, key: "" };
  let beat = 0;
  const server = createServer((req, res) => {
    const path = req.url.split("?")[0];
    if (router.down) return void req.socket.destroy();
    const json = (code, v) => { res.writeHead(code, { "Content-Type": "application/json" }); res.end(JSON.stringify(v)); };
    if (files[path]) {
      res.writeHead(200, { "Content-Type": files[path][0], "Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff" });
      return void res.end(readFileSync(new URL((files[path][1] === "index.html" ? "../src/" : "../../static/") + files[path][1], import.meta.url)));
    }
    if (router.key && req.headers.authorization !== "Bearer " + router.key) return json(401, { error: { message: "The key is wrong." } });
    switch (path) {
      case "/status": return json(200, status(router.state, ++beat));
      case "/history": return json(200, { recent: series(router.state, 5, 180), day: series(router.state, 120, 720), now: now(router.state) });
      case "/nodes": return json(200, nodes(router.state, new URL(req.url, "http://x").searchParams.get("name")));
      case "/links": return json(200, links(router.state));
      case "/choices": {
        const all = recent(router.state, router.held ?? ++beat), number = new URL(req.url, "http://x").searchParams.get("number");
        if (!number) return json(200, { choices: all });
        const choice = all.find(c => c.number === Number(number)), x = explained(router.state, beat);
        return choice ? json(200, { choice, explained: { ...x, ranks: x.ranks.filter(r => r.cost) } }) : json(404, { error: { message: `Choice ${number} is not kept: later ones have taken its place.` } });
      }
      case "/what_if": return json(200, whatIf(router.state));
      case "/index": return json(200, hot(router.state, ++beat));
      case "/explain": return json(200, explained(router.state, beat));
      case "/workers": case "/workers/drain": case "/workers/cordon": {
        let body = "";
        req.on("data", d => (body += d));
        return void req.on("end", () => { router.changes.push(`${req.method} ${decodeURIComponent(req.url)} ${body}`); json(200, {}); });
      }
    }
    json(404, { error: { message: "There is no " + path } });
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  router.url = `http://127.0.0.1:${server.address().port}`;
  router.close = () => { server.closeAllConnections(); server.close(); };
  return router;
}
