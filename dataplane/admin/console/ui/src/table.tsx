// A table of any rows: searched, filtered, sorted, and drawn as far as it is seen. Its settings are in
// the page's address, so that they survive updates and the way back.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { count, plural } from "./format";
import { refine, type Route } from "./route";

export interface Column<T> {
  id: string;
  title: string;
  rem: number; // its width; 0 takes what the others leave
  text?: boolean; // left-aligned, and sorted from A first
  from: number; // the smallest width of the page that shows it in a table
  phone?: "name" | "mark" | "line" | "fact"; // its place in a phone's card, and none if undefined: see style.css
  value: (row: T) => number | string;
  cell: (row: T) => JSX.Element | string;
}

export interface Filter<T> {
  id: string;
  label: string;
  options: [string, string][]; // value and text
  keep: (row: T, value: string) => boolean;
}

interface ListingProps<T> {
  title: string;
  one: string; // the name of a row, and of many
  many?: string;
  rows: T[];
  id: (row: T) => string;
  text: (row: T) => string; // that is searched
  hint: string; // what can be searched
  columns: Column<T>[];
  first: string; // the column that sorts unless another is chosen, with "-" downwards
  filters: Filter<T>[];
  empty: string; // said where there are no rows at all
  route: Route;
  children?: ComponentChildren; // beside the title
}

const narrow = 640; // up to this width rows are cards, as in style.css
const step = 4; // rows that are scrolled until others are drawn
const beyond = 4; // rows above those, and as many more below
const wideFrom = 1850; // from this width on all columns share the room that is left

export const unique = (values: string[]): string[] => [...new Set(values.filter(v => v))].sort();
export const asOptions = (values: string[]): [string, string][] => unique(values).map(v => [v, v]);

/** bare is an address without its scheme, which all of a list share. */
export const bare = (id: string): string => id.replace(/^https?:\/\//, "");

export function useWidth(): number {
  const [width, set] = useState(innerWidth);
  useEffect(() => {
    const follow = (): void => set(innerWidth);
    addEventListener("resize", follow);
    return () => removeEventListener("resize", follow);
  }, []);
  return width;
}

export function Listing<T>(p: ListingProps<T>) {
  const width = useWidth(), query = p.route.query;
  const cards = width <= narrow, shown = p.columns.filter(c => (cards ? c.phone : c.from <= width));
  const q = query.get("q") ?? "", order = query.get("sort") ?? p.first, down = order.startsWith("-"), by = order.replace(/^-/, "");
  const chosen = p.filters.map(f => query.get(f.id) ?? "");
  const rows = useMemo(() => {
    const words = q.toLowerCase().split(/\s+/).filter(w => w);
    const kept = p.rows.filter(r => p.filters.every((f, i) => !chosen[i] || f.keep(r, chosen[i])) && words.every(w => p.text(r).toLowerCase().includes(w)));
    const column = p.columns.find(c => c.id === by) ?? p.columns[0]!;
    return kept.sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      const d = typeof x === "string" ? compareText(x, y as string) : x - (y as number);
      return (down ? -d : d) || compareText(p.id(a), p.id(b));
    });
  }, [p.rows, q, order, chosen.join("\n")]);
  const sort = (c: Column<T>): void => refine(p.route, "sort", by === c.id ? (down ? c.id : "-" + c.id) : c.text ? c.id : "-" + c.id);
  const of = plural(p.rows.length, p.one, p.many);
  return (
    <>
      <div class="heading">
        <h1>{p.title}</h1>
        <p class="note" role="status">{rows.length === p.rows.length ? of : `${count(rows.length)} of ${of}`}</p>
        {p.children}
      </div>
      <div class="filters">
        <input type="search" aria-label={`Search ${p.title.toLowerCase()}`} placeholder={"Search " + p.hint} value={q} onInput={e => refine(p.route, "q", e.currentTarget.value)} />
        {p.filters.map((f, i) => <Choice key={f.id} label={f.label} value={chosen[i]!} options={f.options} onChange={v => refine(p.route, f.id, v)} />)}
        {cards && <Choice label="Sort" value={order} none="" options={p.columns.flatMap(c => [[c.id, c.title + " ▲"], ["-" + c.id, c.title + " ▼"]] as [string, string][])} onChange={v => refine(p.route, "sort", v)} />}
      </div>
      {rows.length === 0 ? <p class="card nothing">{p.rows.length ? `No ${p.one} fits this search.` : p.empty}</p>
        : <Table label={p.title} rows={rows} id={p.id} columns={shown} cards={cards} by={by} down={down} onSort={sort} />}
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

export function Choice({ label, value, options, none = "all", onChange }: { label: string; value: string; options: [string, string][]; none?: string; onChange: (v: string) => void }) {
  const all = value && !options.some(o => o[0] === value) ? [...options, [value, value] as [string, string]] : options;
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={e => onChange(e.currentTarget.value)}>
        {none && <option value="">{none}</option>}
        {all.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
      </select>
    </label>
  );
}

interface TableProps<T> {
  label: string;
  rows: T[];
  id: (row: T) => string;
  columns: Column<T>[];
  cards: boolean;
  by: string;
  down: boolean;
  onSort: (c: Column<T>) => void;
}

/** Table draws the rows that are seen, and room for the others. */
function Table<T>({ label, rows, id, columns, cards, by, down, onSort }: TableProps<T>) {
  const lines = 1 + columns.filter(c => c.phone === "line").length + Math.ceil(columns.filter(c => c.phone === "fact").length / 2);
  const rowHeight = cards ? 20 * lines + 17 : 32, head = cards ? 0 : rowHeight;
  const box = useRef<HTMLDivElement>(null);
  const wide = useWidth() >= wideFrom;
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
  }, [rowHeight]);
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
    const at = rows.findIndex(r => id(r) === row.dataset["id"]);
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 2);
    const steps: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: rows.length - 1 };
    const to = steps[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(rows.length - 1, to)), top = next * rowHeight;
    const goal = rows[next];
    focusOn.current = goal === undefined ? null : id(goal);
    if (top < b.scrollTop) b.scrollTop = top;
    else if (top + head + rowHeight > b.scrollTop + b.clientHeight) b.scrollTop = top + head + rowHeight - b.clientHeight;
    look();
    setView(old => ({ ...old })); // the row may be drawn already
  };
  return (
    <div class="card table" ref={box} style={{ height: `${rows.length * rowHeight + head + 2}px` }} onScroll={look} onKeyDown={move} tabIndex={0} role="region" aria-label={label + ", sortable"}>
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
          {rows.slice(first, end).map((r, i) => (
            <tr key={id(r)} data-id={id(r)} aria-rowindex={first + i + 2} style={cards ? { height: `${rowHeight}px` } : {}}>
              {columns.map(c => <td key={c.id} class={`${c.text ? "left " : ""}${c.phone ?? ""}`} data-label={c.title}>{c.cell(r)}</td>)}
            </tr>
          ))}
          {end < rows.length && <tr key="below" class="room" aria-hidden="true"><td colSpan={columns.length} style={{ height: `${(rows.length - end) * rowHeight}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}
