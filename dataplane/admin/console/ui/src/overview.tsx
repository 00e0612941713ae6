import { useMemo, useState } from "preact/hooks";
import type { Report, Series, Status } from "./api";
import { Chart } from "./chart";
import { bytes, count, dash, percent, plural, seconds, short } from "./format";
import { Concerns } from "./parts";

function Attention({ status }: { status: Status }) {
  if (status.concerns.length === 0) return <p class="card calm"><i class="dot good" /> Nothing needs attention: {plural(status.workers.length, "worker")} ready.</p>;
  return <Concerns list={status.concerns} />;
}

function Figure({ name, value, note, level }: { name: string; value: string; note?: string | undefined; level?: string | undefined }) {
  return (
    <div class="card figure">
      <dt>{name}</dt>
      <dd class={level ?? ""}>{value}</dd>
      <dd class="note">{note ?? ""}</dd>
    </div>
  );
}

const spans = { recent: 900, day: 86400 };
const names = { recent: "15 minutes", day: "24 hours" };

export function Overview({ status: s, past }: { status: Status; past: Report | undefined }) {
  const [range, setRange] = useState<keyof typeof spans>("recent");
  const ready = s.workers.filter(w => w.state === "ready").length;
  const now = past?.now;
  const measured = (now?.saved_seconds ?? 0) > 0 || s.workers.some(w => w.load.prefill_tokens_per_second > 0);
  const alarm = s.workers.length > 0 && ready === 0;
  const queued = s.queue !== undefined;
  const charts = useMemo(() => past && <Charts series={past[range]} span={spans[range]} queued={queued} />, [past, range, queued]); // rows come every 5 s
  return (
    <>
      <h1 class="hidden">Overview</h1>
      <section aria-labelledby="now">
        <h2 id="now">Now</h2>
        <Attention status={s} />
        <dl class="figures">
          <Figure name="Workers ready" value={s.workers.length ? `${count(ready)} of ${count(s.workers.length)}` : "none"} level={alarm || !s.workers.length ? "bad" : ready < s.workers.length ? "warn" : ""}
            note={s.models.map(m => m.model).join(", ")} />
          <Figure name="Requests a second" value={short(now?.requests)} note={`${count(s.in_flight)} in flight`} />
          <Figure name="TTFT, p95" value={seconds(now?.ttft_p95)} note={`p50 ${seconds(now?.ttft_p50)}, then ${seconds(now?.itl_p95)} a token, p95`} />
          <Figure name="Hit rate" value={percent(now?.hit_rate)} note={`expected ${percent(now?.expected_hit_rate)}, since the start ${s.prompt_tokens ? percent(s.hit_rate) : dash}`} />
          <Figure name="Prefill saved" value={measured ? seconds(now?.saved_seconds) : dash} note={measured ? "of GPU time, in 15 minutes" : "no worker's speed is known yet"} />
          <Figure name="Queue" value={s.queue ? count(s.queue.waiting) : dash} note={s.queue ? (s.queue.waiting ? `oldest ${seconds(s.queue.oldest_seconds)}` : "none waits") : "requests never wait here"} level={s.queue?.waiting ? "warn" : ""} />
          <Figure name="Errors" value={count(now?.errors)} note="in 5 minutes" level={now?.errors ? "bad" : ""} />
          <Figure name="Index" value={short(s.index.blocks)} note={`blocks, ${bytes(s.index.bytes)}${s.index.max_bytes ? " of " + bytes(s.index.max_bytes) : ""}`} />
        </dl>
      </section>
      <section aria-labelledby="charts">
        <div class="heading">
          <h2 id="charts">Traffic</h2>
          <div class="switch" role="group" aria-label="Time range">
            {(Object.keys(spans) as (keyof typeof spans)[]).map(k => (
              <button key={k} type="button" aria-pressed={k === range} onClick={() => setRange(k)}>{names[k]}</button>
            ))}
          </div>
        </div>
        {charts}
      </section>
    </>
  );
}

function Charts({ series: t, span, queued }: { series: Series; span: number; queued: boolean }) {
  const common = { at: t.at, span };
  const computed = t.prompt_tokens.map((v, i) => (v === null ? null : v - (t.hit_tokens[i] ?? 0)));
  return (
    <div class="charts">
      <Chart {...common} title="Time to first token" format={seconds} lines={[
        { label: "p50", color: "--c1", values: t.ttft_p50 }, { label: "p95", color: "--c2", values: t.ttft_p95 }, { label: "p99", color: "--c3", values: t.ttft_p99 },
      ]} />
      <Chart {...common} title="Hit rate" note="share of prompt tokens" format={percent} top={1} lines={[
        { label: "actual", color: "--c1", values: t.hit_rate, fill: true }, { label: "expected", color: "--c2", values: t.expected_hit_rate, dashed: true },
      ]} />
      <Chart {...common} title="Requests" note="a second" format={short} lines={[{ label: "ended", color: "--c1", values: t.requests, fill: true }]} />
      <Chart {...common} title="Prompt tokens" note="a second" format={short} lines={[
        { label: "from the cache", color: "--c1", values: t.hit_tokens }, { label: "computed", color: "--c2", values: computed },
      ]} />
      <Chart {...common} title="Time between tokens" note="of streams" format={seconds} lines={[
        { label: "p50", color: "--c1", values: t.itl_p50 }, { label: "p95", color: "--c2", values: t.itl_p95 }, { label: "p99", color: "--c3", values: t.itl_p99 },
      ]} />
      <Chart {...common} title="Generated tokens" note="a second, as reported" format={short} lines={[{ label: "generated", color: "--c1", values: t.generated_tokens, fill: true }]} />
      <Chart {...common} title="Request duration" format={seconds} lines={[
        { label: "p50", color: "--c1", values: t.duration_p50 }, { label: "p95", color: "--c2", values: t.duration_p95 }, { label: "p99", color: "--c3", values: t.duration_p99 },
      ]} />
      <Chart {...common} title="Requests at once" format={short} whole lines={[
        { label: "in flight", color: "--c1", values: t.in_flight }, ...(queued ? [{ label: "queued", color: "--c3", values: t.waiting }] : []),
      ]} />
      <Chart {...common} title="Errors" note={t.step_seconds === 5 ? "in 5 seconds" : "in 2 minutes"} format={short} whole lines={[
        { label: "router", color: "--c3", values: t.errors_router }, { label: "worker", color: "--c2", values: t.errors_worker },
        { label: "broken off", color: "--c5", values: t.errors_cut }, { label: "refused", color: "--c4", values: t.errors_busy },
        { label: "keys", color: "--c6", values: t.errors_keys }, { label: "client", color: "--c7", values: t.errors_client },
      ]} />
      <Chart {...common} title="Workers" format={count} whole lines={[
        { label: "ready", color: "--c4", values: t.workers_ready, fill: true }, { label: "all", color: "--c7", values: t.workers, dashed: true },
      ]} />
      <Chart {...common} title="Prefill saved" note={t.step_seconds === 5 ? "GPU time in 5 seconds" : "GPU time in 2 minutes"} format={seconds} lines={[
        { label: "by cached tokens", color: "--c4", values: t.saved_seconds, fill: true },
      ]} />
    </div>
  );
}
