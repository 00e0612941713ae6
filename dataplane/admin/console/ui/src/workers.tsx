import type { Status, WorkerStatus } from "./api";
import { age, count, dash, percent, seconds, short } from "./format";
import { Badge, Bar, fault, workerLink } from "./parts";
import type { Route } from "./route";
import { asOptions, bare, Listing, type Column } from "./table";

export const stateLevel: Record<string, string> = { ready: "good", probing: "warn", slow: "warn", draining: "info", dead: "bad" };
export const gpuLevel: Record<string, string> = { healthy: "good", degraded: "warn", draining: "warn", dead: "bad", unknown: "none" };
export const eventsLevel: Record<string, string> = { live: "good", unproven: "info", restored: "info", none: "none" };

/** gpuText says of a state that is not known that it is not. */
export const gpuText = (state: string | undefined): string => (!state || state === "unknown" ? "no data" : state);

// A dead worker holds nothing, whatever it reported last.
const pool = (w: WorkerStatus): number => (w.load.pool_tokens && w.state !== "dead" ? w.load.used_tokens / w.load.pool_tokens : -1);

const columns: Column<WorkerStatus>[] = [
  { id: "id", phone: "name", rem: 0, title: "Worker", text: true, from: 0, value: w => w.id, cell: w => <a href={workerLink(w.id)} title={w.id}>{bare(w.id)}</a> },
  { id: "state", phone: "mark", rem: 7.5, title: "State", text: true, from: 0, value: w => w.state, cell: w => <Badge text={w.state} level={stateLevel[w.state]} /> },
  { id: "since", rem: 8, title: "Since", from: 700, value: w => w.state_seconds, cell: w => age(w.state_seconds) },
  { id: "role", rem: 7.5, title: "Role", text: true, from: 1000, value: w => w.role, cell: w => w.role },
  { id: "model", rem: 16, title: "Model", text: true, from: 1600, value: w => w.model, cell: w => <span title={w.model}>{w.model || dash}</span> },
  { id: "load", phone: "fact", rem: 6.5, title: "In flight", from: 0, value: w => w.load.in_flight, cell: w => count(w.load.in_flight) },
  { id: "pending", phone: "fact", rem: 6.5, title: "Pending", from: 0, value: w => w.load.pending_tokens, cell: w => short(w.load.pending_tokens) },
  { id: "wait", rem: 6.5, title: "Wait", from: 1450, value: w => w.load.predicted_wait_s, cell: w => (w.load.prefill_tokens_per_second && w.state !== "dead" ? seconds(w.load.predicted_wait_s) : dash) },
  { id: "pool", phone: "fact", rem: 8.5, title: "KV pool", from: 800, value: pool, cell: w => (pool(w) < 0 ? dash : <><Bar share={pool(w)} />{percent(pool(w))}</>) },
  { id: "speed", rem: 7, title: "Prefill", from: 1750, value: w => w.load.prefill_tokens_per_second, cell: w => (w.load.prefill_tokens_per_second ? short(w.load.prefill_tokens_per_second) + "/s" : dash) },
  { id: "hit", phone: "fact", rem: 8.5, title: "Hit rate", from: 0, value: w => (w.prompt_tokens ? w.hit_rate : -1), cell: w => (w.prompt_tokens ? <><Bar share={w.hit_rate} />{percent(w.hit_rate)}</> : dash) },
  { id: "requests", rem: 7, title: "Requests", from: 900, value: w => w.requests, cell: w => short(w.requests) },
  { id: "failed", rem: 5.5, title: "Failed", from: 1100, value: w => w.failed, cell: w => (w.failed ? <span class="bad">{short(w.failed)}</span> : "0") },
  { id: "trust", rem: 5.5, title: "Trust", from: 1850, value: w => w.trust.credit, cell: w => (w.trust.credit < 1 ? <span class="warn">{percent(w.trust.credit)}</span> : "full") },
  { id: "events", rem: 8.5, title: "Events", text: true, from: 1000, value: w => (w.trust.events_set_aside ? "set aside" : w.events.state),
    cell: w => (w.trust.events_set_aside ? <Badge text="set aside" level="warn" /> : <Badge text={w.events.state} level={eventsLevel[w.events.state]} />) },
  { id: "gpus", rem: 8, title: "GPUs", text: true, from: 1200, value: w => gpuText(w.gpus.state), cell: w => <Badge text={gpuText(w.gpus.state)} level={gpuLevel[w.gpus.state]} /> },
];

// Its state, and its faults that are none.
const conditions = (w: WorkerStatus): string[] => [w.state, ...(w.concerns ?? []).map(fault)];

export function Workers({ status, route }: { status: Status; route: Route }) {
  const all = status.workers;
  return (
    <Listing title="Workers" one="rank" rows={all} id={w => w.id} text={w => `${w.id} ${w.model} ${w.role} ${w.state} ${w.error ?? ""}`} hint="address, model, error"
      columns={columns} first="id" route={route} empty="No workers. Start the router with --worker, --discover or --cluster, or add one with POST /workers on the operator API."
      filters={[
        { id: "state", label: "State", options: asOptions(all.flatMap(conditions)).map(([v]) => [v, v.replaceAll("_", " ")]), keep: (w, v) => conditions(w).includes(v) },
        { id: "role", label: "Role", options: asOptions(all.map(w => w.role)), keep: (w, v) => w.role === v },
        { id: "model", label: "Model", options: asOptions(all.map(w => w.model)), keep: (w, v) => w.model === v },
      ]} />
  );
}
