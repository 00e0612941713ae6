import { Actions, type Action } from "./actions";
import { ask, type Status, type WorkerStatus } from "./api";
import { age, bytes, count, dash, percent, plural, seconds, short } from "./format";
import { Badge, Concerns, Facts, Part, Trail } from "./parts";
import { bare } from "./table";
import { eventsLevel, gpuLevel, gpuText, stateLevel } from "./workers";

/** actions are what an operator can do with a worker now; each asks first. */
function actions(w: WorkerStatus, ranks: WorkerStatus[], cluster: boolean): Action[] {
  const flying = ranks.reduce((n, r) => n + r.in_flight, 0), requests = plural(flying, "request");
  const others = ranks.length > 1 ? ` All ${ranks.length} ranks of ${w.url} are meant.` : "";
  const scope = cluster ? "every router of the cluster" : "this router";
  const drain = (on: boolean) => () => ask("/workers/drain", "POST", { url: w.url, drain: on });
  const cordon = (on: boolean) => () => ask("/workers/cordon", "POST", { url: w.url, cordon: on });
  const remove = (query: string) => () => ask(`/workers?${query}url=${encodeURIComponent(w.url)}`, "DELETE");
  return [
    w.drain?.includes("operator")
      ? { title: "End drain", ask: `It gets requests again at ${scope}.${others}`, run: drain(false) }
      : { title: "Drain", ask: `It gets no new requests at ${scope}; ${requests} in flight go on to their end.${others}`, run: drain(true) },
    w.cordoned
      ? { title: "End cordon", ask: `If it leaves, it may come back at ${scope}. A cordon of its node holds on.${others}`, run: cordon(false) }
      : { title: "Cordon", ask: `It serves on, but once it has left it does not come back at ${scope}.${others}`, run: cordon(true) },
    { title: "Remove", danger: true, ask: `This router forgets it once its ${requests} in flight have ended. A source that lists it brings it back at a restart.${others}`, run: remove("") },
    { title: "Remove at once", danger: true, ask: `This router forgets it now; ${requests} in flight ${flying === 1 ? "goes" : "go"} on to ${flying === 1 ? "its" : "their"} end.${others}`, run: remove("now=true&") },
  ];
}

export function Worker({ status, id, refresh }: { status: Status; id: string; refresh: () => void }) {
  const w = status.workers.find(one => one.id === id);
  if (!w) {
    return (
      <>
        <Trail to="#/workers" view="Workers" name={bare(id)} />
        <h1>{id}</h1>
        <p class="card nothing">The router has no worker of this name. It was removed, or has never been there.</p>
      </>
    );
  }
  return <Known w={w} ranks={status.workers.filter(o => o.url === w.url)} cluster={status.cluster !== undefined} refresh={refresh} />;
}

function Known({ w, ranks, cluster, refresh }: { w: WorkerStatus; ranks: WorkerStatus[]; cluster: boolean; refresh: () => void }) {
  const l = w.load, t = w.trust, e = w.events, g = w.gpus;
  return (
    <>
      <Trail to="#/workers" view="Workers" name={bare(w.id)} />
      <div class="heading">
        <h1 class="address">{w.id}</h1>
        <Badge text={w.state} level={stateLevel[w.state]} />
        <span class="note">for {age(w.state_seconds)}</span>
        <Actions list={actions(w, ranks, cluster)} name={w.url} refresh={refresh} />
      </div>
      {w.concerns && <Concerns list={w.concerns} />}
      <div class="parts">
        <Part title="Worker">
          <Facts list={[
            ["Model", w.model || dash], ["Role", w.role], ["Engine", `${w.engine ?? (w.model ? "SGLang" : "")} ${w.version ?? ""}`.trim() || dash],
            ["Page size", w.page_size ? plural(w.page_size, "token") : dash], ["Bootstrap", w.bootstrap ?? dash],
            ["Listed by", w.sources?.join(", ") || dash], ["Drained by", w.drain?.join(", ") || "nobody"], ["Cordoned", w.cordoned ? "yes" : "no"],
            ["Breaker", <>{w.breaker.state}{w.breaker.opened > 0 && `, opened ${plural(w.breaker.opened, "time")}`}</>],
          ]} />
        </Part>
        <Part title="Load">
          <Facts list={[
            ["In flight", `${count(l.in_flight)}${l.max_running ? ` of ${count(l.max_running)}` : ""}`], ["Without a first token", count(l.waiting)],
            ["Of this router", count(l.own_in_flight)], ["Prompt tokens to compute", short(l.pending_tokens)],
            ["Prefill speed", l.prefill_tokens_per_second ? short(l.prefill_tokens_per_second) + " tokens/s" : "not known yet"],
            ["Predicted wait", l.prefill_tokens_per_second && w.state !== "dead" ? seconds(l.predicted_wait_s) : dash],
            ["Reports", l.source === "dispatch" ? "none: counted by this router" : `${l.source}, ${seconds(l.age_seconds)} old${l.reports_too_old ? ": too old, not used" : ""}`],
          ]} />
        </Part>
        <Part title="KV pool">
          {w.state === "dead" ? <p class="note">A dead worker holds nothing.</p> : l.pool_tokens ? (
            <>
              <div class="stack" role="img" aria-label={`${percent(l.used_tokens / l.pool_tokens)} of the pool used by running requests`}>
                <i class="t1" style={{ width: `${(100 * l.used_tokens) / l.pool_tokens}%` }} />
                <i class="t2" style={{ width: `${(100 * l.reserved_tokens) / l.pool_tokens}%` }} />
              </div>
              <Facts list={[["Used by running requests", `${short(l.used_tokens)} (${percent(l.used_tokens / l.pool_tokens)})`], ["Reserved", short(l.reserved_tokens)], ["Pool", short(l.pool_tokens) + " tokens"]]} />
            </>
          ) : <p class="note">The worker has not told the size of its pool.</p>}
          <Facts list={[["Blocks in the index", short(w.blocks)], ["Sessions here", count(w.sessions)], ["Tokens that sessions need again", short(w.live_tokens)]]} />
        </Part>
        <Part title="Traffic of this router">
          <Facts list={[
            ["Requests", `${count(w.requests)} (${percent(w.share)} of all), ${short(w.requests_per_second)} a second`], ["Failed", w.failed ? <span class="bad">{count(w.failed)}</span> : "0"],
            ["Hit rate", w.prompt_tokens ? percent(w.hit_rate) : dash], ["Cached tokens", `${short(w.hit_tokens)} of ${short(w.prompt_tokens)}`],
          ]} />
          <p><a href={"#/choices?worker=" + encodeURIComponent(w.id)}>Recent choices</a></p>
        </Part>
        <Part title="Trust">
          <Facts list={[
            ["Overlap", w.overlap], ["Credit", percent(t.credit)], ["Right expectations", t.compared ? `${percent(t.accuracy)} of the last ${count(t.compared)}` : "none compared yet"],
            ["Last confirmed", t.silent_seconds < 0 ? "never" : seconds(t.silent_seconds) + " ago"], ["Checked every", seconds(t.check_seconds)],
          ]} />
        </Part>
        <Part title="Events">
          <Facts list={[
            ["State", <Badge text={e.state} level={eventsLevel[e.state]} />],
            ...(e.state === "none" ? [] : [
              ["Batches", `${count(e.batches)}, the last number ${count(e.sequence)}`], ["Behind", e.lag_ms ? seconds(e.lag_ms / 1000) : "0 s"], ["Gaps", count(e.gaps)], ["Replayed", count(e.replayed)], ["Lost", count(e.lost)],
              ["Restarts of the worker", count(e.restarts)], ["Unreadable", count(e.malformed)],
              ["Unknown", `${plural(e.unknown_events, "event")}, ${plural(e.unknown_parents, "parent")}, ${plural(e.unknown_removals, "removal")}`],
            ] as [string, string][]),
          ]} />
        </Part>
        <Part title="GPUs">
          <Facts list={[
            ["State", <Badge text={gpuText(g.state)} level={gpuLevel[g.state]} />],
            ...(g.state === "unknown" ? [] : [
              ["Speed left", percent(g.weight)], ["Free memory", g.free_bytes ? bytes(g.free_bytes) : dash], ["Facts", g.age_seconds === undefined ? dash : age(g.age_seconds) + " old"],
            ] as [string, string][]),
          ]} />
          {g.state === "unknown" && <p class="note">No sidecar reports on the GPUs of this worker.</p>}
          {g.doubted && <p class="remark">Choices ignore this: too many workers died at one instant by their GPU facts, or this is the last.</p>}
          {g.reasons?.map(r => <p key={r} class="remark">{r}</p>)}
        </Part>
      </div>
    </>
  );
}
