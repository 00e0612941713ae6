// What needs an operator's eye now, worst first. It is a function of the router's own words: a
// value that is not known makes no issue, and no all-clear either.

import type { Report, Status, WorkerStatus } from "./api";
import { age, count, plural, seconds } from "./format";

export type Level = "bad" | "warn" | "info";

export interface Issue {
  id: string;
  level: Level;
  text: string;
  detail?: string;
  /** in words, where it is known */
  since?: string;
  link?: string;
}

export const workerLink = (id: string): string => "#/workers/" + encodeURIComponent(id);
export const stateLink = (state: string): string => "#/workers?state=" + encodeURIComponent(state);

// Batches that were applied a second late or more are behind: engines publish several a second.
const behind = 1000;
// A new worker takes a moment to connect.
const settling = 30;
// Beyond these, workers with one fault are one line.
const most = 4;

/** byFault makes a line a worker, or one of all where they are many. */
function byFault(workers: WorkerStatus[], level: Level, fault: string, many: string, link: string,
  detail: (w: WorkerStatus) => string | undefined, begun: (w: WorkerStatus) => number | undefined): Issue[] {
  const first = workers[0];
  if (!first) return [];
  const make = (w: WorkerStatus, id: string, text: string, href: string): Issue => {
    const why = detail(w), from = begun(w);
    return { id, level, text, link: href, ...(why && { detail: why }), ...(from !== undefined && { since: "for " + age(from) }) };
  };
  if (workers.length <= most) return workers.map(w => make(w, fault + w.id, `${w.id} ${fault}`, workerLink(w.id)));
  const latest = workers.reduce((a, w) => ((begun(w) ?? 0) < (begun(a) ?? 0) ? w : a), first);
  const one = make(latest, fault, `${count(workers.length)} workers ${many}`, link), from = begun(latest);
  if (from !== undefined) one.since = `the latest ${age(from)} ago`;
  if (one.detail) one.detail = `${latest.id}: ${one.detail}`;
  return [one];
}

const inState = (w: WorkerStatus): number => w.state_seconds;

function ofWorkers(all: WorkerStatus[]): Issue[] {
  const of = (keep: (w: WorkerStatus) => boolean): WorkerStatus[] => all.filter(keep);
  const alive = (w: WorkerStatus): boolean => w.state !== "dead";
  const none = (): undefined => undefined;
  return [
    ...byFault(of(w => w.state === "dead"), "bad", "is dead", "are dead", stateLink("dead"), w => w.error, inState),
    ...byFault(of(w => alive(w) && w.gpus.state === "dead"), "bad", "has a dead GPU", "have dead GPUs", "#/workers?state=gpu",
      w => w.gpus.reasons?.join("; "), none),
    ...byFault(of(w => w.state === "slow"), "warn", "does not answer its probes in time", "do not answer their probes in time", stateLink("slow"),
      w => w.error, inState),
    ...byFault(of(w => w.state === "probing"), "warn", "is not ready yet", "are not ready yet", stateLink("probing"), w => w.error, inState),
    ...byFault(of(w => alive(w) && w.breaker.state !== "closed"), "warn", "fails requests: its breaker is not closed", "fail requests: their breakers are not closed",
      "#/workers?state=breaker", w => plural(w.breaker.faults, "fault") + " in a row", none),
    ...byFault(of(w => alive(w) && (w.gpus.state === "degraded" || w.gpus.state === "draining")), "warn", "has degraded GPUs", "have degraded GPUs",
      "#/workers?state=gpu", w => w.gpus.reasons?.join("; "), none),
    ...byFault(of(w => alive(w) && w.trust.events_set_aside !== undefined), "warn", "tells other than its answers: its events are set aside",
      "have their events set aside", "#/workers?state=events", w => w.trust.events_set_aside?.why, w => w.trust.events_set_aside && (Date.now() - Date.parse(w.trust.events_set_aside.since)) / 1000),
    ...byFault(of(w => alive(w) && w.events.lag_ms >= behind), "warn", "has events behind", "have events behind", "#/workers?state=events",
      w => seconds(w.events.lag_ms / 1000) + " late", none),
    ...byFault(of(w => w.state === "ready" && w.state_seconds > settling && ["connecting", "replaying", "degraded"].includes(w.events.state)), "warn",
      "has no whole event stream", "have no whole event stream", "#/workers?state=events", w => "events are " + w.events.state, none),
    ...byFault(of(w => alive(w) && (w.load.set_aside?.length ?? 0) > 0), "warn", "sends load reports that cannot be right", "send load reports that cannot be right",
      "#/workers", w => w.load.set_aside?.map(a => `${a.field}: ${a.why}`).join("; "), none),
    ...byFault(of(w => alive(w) && w.load.reports_too_old), "info", "has sent no load report lately", "have sent no load report lately", "#/workers",
      w => "the last one " + age(w.load.age_seconds) + " ago", none),
    ...byFault(of(w => w.state === "draining"), "info", "is draining", "are draining", stateLink("draining"),
      w => w.drain?.join(", ") + ": " + plural(w.in_flight, "request") + " in flight", inState),
  ];
}

const recently = 60; // rows of five seconds: five minutes

/** recent adds up the last five minutes of a column; undefined where the router keeps no rows yet. */
export function recent(column: (number | null)[] | undefined): number | undefined {
  if (!column?.length) return undefined;
  return column.slice(-recently).reduce<number>((sum, v) => sum + (v ?? 0), 0);
}

export function issues(s: Status, past: Report | undefined): Issue[] {
  const out: Issue[] = [];
  const ready = s.workers.filter(w => w.state === "ready").length;
  if (s.workers.length === 0) {
    out.push({ id: "none", level: "bad", text: "No workers: every request is refused",
      detail: "Start the router with --worker, --discover or --cluster, or add one with POST /workers." });
  } else if (ready === 0) {
    out.push({ id: "noready", level: "bad", text: `None of ${plural(s.workers.length, "worker")} is ready: requests are refused`, link: "#/workers",
      since: "for " + age(Math.min(...s.workers.map(w => w.state_seconds))) });
  }
  if (s.draining) out.push({ id: "draining", level: "warn", text: "The router is draining: it takes no new requests" });
  if (ready > 0) {
    for (const m of s.models) {
      if (!m.ready) out.push({ id: "model" + m.model, level: "bad", text: `${m.model} cannot be served`, ...(m.lacks && { detail: m.lacks }) });
    }
  }
  out.push(...ofWorkers(s.workers));
  const q = s.queue;
  if (q && q.waiting > 0) {
    out.push({ id: "queue", level: "warn", text: `${plural(q.waiting, "request")} ${q.waiting === 1 ? "waits" : "wait"}: all workers that could take them are full`,
      since: "the oldest for " + age(q.oldest_seconds), detail: `${q.rate.toFixed(1)} a second leave the queue` });
  }
  const r = past?.recent;
  const failed: [string, Level, string, (number | null)[] | undefined][] = [
    ["router", "bad", "failed at the router: no worker answered", r?.errors_router],
    ["worker", "bad", "got an error of a worker", r?.errors_worker],
    ["cut", "bad", "got an answer that a worker broke off", r?.errors_cut],
    ["busy", "warn", "refused with 429", r?.errors_busy],
    ["keys", "warn", "refused for a missing or wrong key", r?.errors_keys],
  ];
  for (const [id, level, text, column] of failed) {
    const n = recent(column);
    if (n) out.push({ id: "errors" + id, level, text: `${plural(n, "request")} ${text}`, detail: "in the last 5 minutes" });
  }
  const refused = s.operator_refused.wrong_key + s.operator_refused.foreign;
  if (refused > 0) {
    out.push({ id: "operator", level: "info", text: `${plural(refused, "request")} to the operator API refused`,
      detail: `${count(s.operator_refused.wrong_key)} with a wrong key, ${count(s.operator_refused.foreign)} of foreign web pages, since the start` });
  }
  if (s.cluster && !s.cluster.up) {
    out.push({ id: "cluster", level: "warn", text: "The cluster's NATS does not answer", detail: "the last view of the cluster holds", since: "for " + age(s.cluster.age_seconds) });
  }
  for (const source of s.sources ?? []) {
    if (source.error) out.push({ id: "source" + source.name, level: "warn", text: `The source ${source.name} of workers cannot answer`, detail: source.error });
  }
  if (s.config?.error) out.push({ id: "config", level: "warn", text: "The configuration file was not taken over", detail: s.config.error });
  if (s.config?.restart?.length) out.push({ id: "restart", level: "info", text: "Changed settings wait for a restart", detail: s.config.restart.join(", ") });
  const rank: Record<Level, number> = { bad: 0, warn: 1, info: 2 };
  return out.sort((a, b) => rank[a.level] - rank[b.level]);
}
