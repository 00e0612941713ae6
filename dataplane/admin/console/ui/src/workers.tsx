import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Status, WorkerStatus } from "./api";
import { age, count, dash, percent, plural, seconds, short } from "./format";
import { workerLink } from "./issues";
import { refine, type Route } from "./route";

export const stateLevel: Record<string, string> = { ready: "good", probing: "warn", slow: "warn", draining: "info", dead: "bad" };
export const gpuLevel: Record<string, string> = { healthy: "good", degraded: "warn", draining: "warn", dead: "bad", unknown: "none" };
export const eventsLevel: Record<string, string> = { live: "good", unproven: "info", restored: "info", none: "none" };

export const gpuText = (state: string): string => (state === "unknown" ? "no data" : state);

export function Badge({ text, level }: { text: string; level: string | undefined }) {
  return <span class={"badge " + (level ?? "warn")}><i class={"dot " + (level ?? "warn")} />{text}</span>;
}

interface Column {
  id: string;
  title: string;
  rem: number; // its width; 0 takes what the others leave
  text?: boolean; // left-aligned, and sorted from A first
  from: number; // the smallest width of the page that shows it
  value: (w: WorkerStatus) => number | string;
  cell: (w: WorkerStatus) => JSX.Element | string;
}

// A dead worker holds nothing, whatever it reported last.
const pool = (w: WorkerStatus): number => (w.load.pool_tokens && w.state !== "dead" ? w.load.used_tokens / w.load.pool_tokens : -1);

function Bar({ share }: { share: number }) {
  return <span class="bar" aria-hidden="true"><i style={{ width: `${100 * Math.min(1, Math.max(0, share))}%` }} /></span>;
}

const columns: Column[] = [
  { id: "id", rem: 0, title: "Worker", text: true, from: 0, value: w => w.id, cell: w => <a href={workerLink(w.id)} title={w.id}>{w.id.replace(/^https?:\/\//, "")}</a> },
  { id: "state", rem: 7.5, title: "State", text: true, from: 0, value: w => w.state, cell: w => <Badge text={w.state} level={stateLevel[w.state]} /> },
  { id: "since", rem: 8, title: "Since", from: 700, value: w => w.state_seconds, cell: w => age(w.state_seconds) },
  { id: "role", rem: 7.5, title: "Role", text: true, from: 1000, value: w => w.role, cell: w => w.role },
  { id: "model", rem: 16, title: "Model", text: true, from: 1600, value: w => w.model, cell: w => <span title={w.model}>{w.model || dash}</span> },
  { id: "load", rem: 6.5, title: "In flight", from: 0, value: w => w.load.in_flight, cell: w => count(w.load.in_flight) },
  { id: "pending", rem: 6.5, title: "Pending", from: 500, value: w => w.load.pending_tokens, cell: w => short(w.load.pending_tokens) },
  { id: "wait", rem: 6.5, title: "Wait", from: 1450, value: w => w.load.predicted_wait_s, cell: w => (w.load.prefill_tokens_per_second && w.state !== "dead" ? seconds(w.load.predicted_wait_s) : dash) },
  { id: "pool", rem: 8.5, title: "KV pool", from: 800, value: pool, cell: w => (pool(w) < 0 ? dash : <><Bar share={pool(w)} />{percent(pool(w))}</>) },
  { id: "speed", rem: 7, title: "Prefill", from: 1750, value: w => w.load.prefill_tokens_per_second, cell: w => (w.load.prefill_tokens_per_second ? short(w.load.prefill_tokens_per_second) + "/s" : dash) },
  { id: "hit", rem: 8.5, title: "Hit rate", from: 600, value: w => (w.prompt_tokens ? w.hit_rate : -1), cell: w => (w.prompt_tokens ? <><Bar share={w.hit_rate} />{percent(w.hit_rate)}</> : dash) },
  { id: "requests", rem: 7, title: "Requests", from: 900, value: w => w.requests, cell: w => short(w.requests) },
  { id: "failed", rem: 5.5, title: "Failed", from: 1100, value: w => w.failed, cell: w => (w.failed ? <span class="bad">{short(w.failed)}</span> : "0") },
  { id: "trust", rem: 5.5, title: "Trust", from: 1850, value: w => w.trust.credit, cell: w => (w.trust.credit < 1 ? <span class="warn">{percent(w.trust.credit)}</span> : "full") },
  { id: "events", rem: 8.5, title: "Events", text: true, from: 1000, value: w => (w.trust.events_set_aside ? "set aside" : w.events.state),
    cell: w => (w.trust.events_set_aside ? <Badge text="set aside" level="warn" /> : <Badge text={w.events.state} level={eventsLevel[w.events.state]} />) },
  { id: "gpus", rem: 8, title: "GPUs", text: true, from: 1200, value: w => gpuText(w.gpus.state), cell: w => <Badge text={gpuText(w.gpus.state)} level={gpuLevel[w.gpus.state]} /> },
];

// Faults that are no state of the worker, as the overview links to them.
const faults: Record<string, [string, (w: WorkerStatus) => boolean]> = {
  gpu: ["GPU fault", w => w.gpus.state !== "healthy" && w.gpus.state !== "unknown"],
  breaker: ["breaker open", w => w.breaker.state !== "closed"],
  events: ["events not whole", w => w.trust.events_set_aside !== undefined || w.events.lag_ms >= 1000 || ["connecting", "replaying", "degraded"].includes(w.events.state)],
};

const unique = (values: string[]): string[] => [...new Set(values.filter(v => v))].sort();

export function useWidth(): number {
  const [width, set] = useState(innerWidth);
  useEffect(() => {
    const follow = (): void => set(innerWidth);
    addEventListener("resize", follow);
    return () => removeEventListener("resize", follow);
  }, []);
  return width;
}

const rowHeight = 32;
const step = 4; // rows that are scrolled until others are drawn
const beyond = 4; // rows above those, and as many more below

export function Workers({ status, route }: { status: Status; route: Route }) {
  const width = useWidth();
  const shown = columns.filter(c => c.from <= width);
  const q = route.query.get("q") ?? "", state = route.query.get("state") ?? "", role = route.query.get("role") ?? "", model = route.query.get("model") ?? "";
  const order = route.query.get("sort") ?? "id", down = order.startsWith("-"), by = order.replace(/^-/, "");
  const rows = useMemo(() => {
    const words = q.toLowerCase().split(/\s+/).filter(w => w);
    const fault = faults[state]?.[1];
    const kept = status.workers.filter(w =>
      (!state || (fault ? fault(w) : w.state === state)) && (!role || w.role === role) && (!model || w.model === model) &&
      words.every(word => `${w.id} ${w.model} ${w.role} ${w.state} ${w.error ?? ""}`.toLowerCase().includes(word)));
    const column = columns.find(c => c.id === by) ?? columns[0]!;
    const compare = (a: WorkerStatus, b: WorkerStatus): number => {
      const x = column.value(a), y = column.value(b);
      const d = typeof x === "string" ? compareText(x, y as string) : x - (y as number);
      return (down ? -d : d) || compareText(a.id, b.id);
    };
    return kept.sort(compare);
  }, [status, q, state, role, model, order]);

  const sort = (c: Column): void => refine(route, "sort", by === c.id ? (down ? c.id : "-" + c.id) : c.text ? c.id : "-" + c.id);
  const states = unique(status.workers.map(w => w.state));
  return (
    <>
      <div class="heading">
        <h1>Workers</h1>
        <p class="note" role="status">{rows.length === status.workers.length ? plural(rows.length, "rank") : `${count(rows.length)} of ${plural(status.workers.length, "rank")}`}</p>
      </div>
      <div class="filters">
        <input type="search" aria-label="Search workers" placeholder="Search address, model, error" value={q} onInput={e => refine(route, "q", e.currentTarget.value)} />
        <Choice label="State" value={state} options={[...states.map((s): [string, string] => [s, s]), ...Object.entries(faults).map(([k, [text]]): [string, string] => [k, text])]} onChange={v => refine(route, "state", v)} />
        <Choice label="Role" value={role} options={unique(status.workers.map(w => w.role)).map(s => [s, s])} onChange={v => refine(route, "role", v)} />
        <Choice label="Model" value={model} options={unique(status.workers.map(w => w.model)).map(s => [s, s])} onChange={v => refine(route, "model", v)} />
      </div>
      {rows.length === 0 ? (
        <p class="card nothing">{status.workers.length ? "No worker fits this search." : "No workers. Start the router with --worker, --discover or --cluster, or add one with POST /workers on the operator API."}</p>
      ) : <Table rows={rows} columns={shown} by={by} down={down} onSort={sort} />}
    </>
  );
}

const collator = new Intl.Collator("en", { numeric: true });
const keys = new Map<string, string>();

/** compareText orders numbers in names by value. Collators are slow, so names get keys once. */
function compareText(a: string, b: string): number {
  if (a === b) return 0;
  if (keys.size > 10_000) keys.clear();
  const x = sortKey(a), y = sortKey(b);
  return x < y ? -1 : x > y ? 1 : collator.compare(a, b);
}

function sortKey(name: string): string {
  let key = keys.get(name);
  if (key === undefined) keys.set(name, (key = name.toLowerCase().replace(/\d+/g, n => n.padStart(10, "0"))));
  return key;
}

export function Choice({ label, value, options, onChange }: { label: string; value: string; options: [string, string][]; onChange: (v: string) => void }) {
  const all = value && !options.some(o => o[0] === value) ? [...options, [value, value] as [string, string]] : options;
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={e => onChange(e.currentTarget.value)}>
        <option value="">all</option>
        {all.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
      </select>
    </label>
  );
}

interface TableProps {
  rows: WorkerStatus[];
  columns: Column[];
  by: string;
  down: boolean;
  onSort: (c: Column) => void;
}

/** Table draws the rows that are seen, and room for the others. */
function Table({ rows, columns, by, down, onSort }: TableProps) {
  const box = useRef<HTMLDivElement>(null);
  const wide = columns.length > 15; // all are shown, and share the room that is left
  const [view, setView] = useState({ top: 0, height: 800 });
  const focusOn = useRef<string | null>(null);
  const look = (): void => {
    const b = box.current;
    if (!b) return;
    const top = b.scrollTop - (b.scrollTop % (step * rowHeight)), height = b.clientHeight;
    setView(old => (old.top === top && old.height === height ? old : { top, height }));
  };
  useLayoutEffect(() => {
    look();
    const resize = new ResizeObserver(look);
    if (box.current) resize.observe(box.current);
    return () => resize.disconnect();
  }, []);
  const first = Math.max(0, Math.min(Math.floor(view.top / rowHeight) - beyond, rows.length - 1));
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + step + beyond);

  useLayoutEffect(() => {
    if (focusOn.current === null) return;
    const link = box.current?.querySelector<HTMLElement>(`tr[data-id="${CSS.escape(focusOn.current)}"] a`);
    if (link) {
      focusOn.current = null;
      link.focus({ preventScroll: true });
    }
  });
  // Arrows move from row to row, also to rows that are not drawn yet.
  const move = (e: KeyboardEvent): void => {
    const b = box.current, row = (e.target as HTMLElement).closest<HTMLElement>("tr[data-id]");
    if (!b || !row) return;
    const at = rows.findIndex(w => w.id === row.dataset["id"]);
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    const to = steps[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(rows.length - 1, to)), top = next * rowHeight, head = rowHeight;
    focusOn.current = rows[next]?.id ?? null;
    if (top < b.scrollTop) b.scrollTop = top;
    else if (top + head + rowHeight > b.scrollTop + b.clientHeight) b.scrollTop = top + head + rowHeight - b.clientHeight;
    look();
    setView(old => ({ ...old })); // the row may be drawn already
  };
  return (
    <div class="card table" ref={box} style={{ height: `${(rows.length + 1) * rowHeight + 2}px` }} onScroll={look} onKeyDown={move} tabIndex={0} role="region" aria-label="Workers, sortable">
      <table aria-rowcount={rows.length + 1}>
        <colgroup>{columns.map(c => <col key={c.id} style={c.rem || wide ? { width: (c.rem || 18) + "rem" } : {}} />)}</colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map(c => (
              <th key={c.id} scope="col" class={c.text ? "left" : ""} aria-sort={by === c.id ? (down ? "descending" : "ascending") : "none"}>
                <button type="button" onClick={() => onSort(c)}>{c.title}{by === c.id && <span class="arrow" aria-hidden="true">{down ? "▼" : "▲"}</span>}</button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr key="above" class="room" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${first * rowHeight}px` }} /></tr>}
          {rows.slice(first, end).map((w, i) => (
            <tr key={w.id} data-id={w.id} aria-rowindex={first + i + 2}>
              {columns.map(c => <td key={c.id} class={c.text ? "left" : ""}>{c.cell(w)}</td>)}
            </tr>
          ))}
          {end < rows.length && <tr key="below" class="room" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${(rows.length - end) * rowHeight}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}
