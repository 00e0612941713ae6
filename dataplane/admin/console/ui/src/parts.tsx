// Pieces that several views are made of.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Concern } from "./api";
import { age, count } from "./format";

export const workerLink = (id: string): string => "#/workers/" + encodeURIComponent(id);

const severities: Record<string, [string, string]> = { fault: ["bad", "Fault"], warning: ["warn", "Warning"], note: ["info", "Note"] };
const aboutWorkers = "worker_";
/** fault is the kind of a concern about workers, as the filter of their view has it; "" of others. */
export const fault = (c: Concern): string => (c.kind.startsWith(aboutWorkers) ? c.kind.slice(aboutWorkers.length) : "");

function place(c: Concern): string | undefined {
  if (c.kind === "none_ready") return "#/workers";
  return fault(c) && (c.subject ? workerLink(c.subject) : "#/workers?state=" + fault(c));
}

/** Concerns are what needs attention, with what to do. */
export function Concerns({ list }: { list: Concern[] }) {
  return (
    <ul class="card concerns">
      {list.map(c => {
        const [level, name] = severities[c.severity] ?? ["bad", c.severity], link = place(c);
        return (
          <li key={c.kind + c.subject} class={level}>
            <span class={"level " + level}>{name}</span>
            <span class="what">{link ? <a href={link}>{c.text}</a> : c.text}{c.advice && <small>{c.advice}</small>}</span>
            <span class="since">{c.since_seconds && "for " + age(c.since_seconds)}</span>
          </li>
        );
      })}
    </ul>
  );
}

export function Badge({ text, level }: { text: string; level: string | undefined }) {
  return <span class={"badge " + (level ?? "warn")}><i class={"dot " + (level ?? "warn")} />{text}</span>;
}

export function Bar({ share }: { share: number }) {
  return <span class="bar" aria-hidden="true"><i style={{ width: `${100 * Math.min(1, Math.max(0, share))}%` }} /></span>;
}

export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return <section class="card part"><h2>{title}</h2>{children}</section>;
}

export function Facts({ list }: { list: [ComponentChildren, ComponentChildren][] }) {
  return <dl class="facts">{list.map(([name, value], i) => <div key={i}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Trail({ to, view, name }: { to: string; view: string; name: string }) {
  return <nav class="trail" aria-label="Place"><a href={to}>{view}</a> <span aria-hidden="true">/</span> <span>{name}</span></nav>;
}

/** useFirst is the first of a list, and a button for all where there are more. */
export function useFirst<T>(list: T[], most: number): [T[], ComponentChildren] {
  const [all, setAll] = useState(false);
  return all || list.length <= most ? [list, null] : [list.slice(0, most), <button type="button" class="more" onClick={() => setAll(true)}>Show all {count(list.length)}</button>];
}

/** Grid is a short table: heads, and rows of cells, the first of which names its row. */
export function Grid({ label, heads, rows }: { label: string; heads: string[]; rows: ComponentChildren[][] }) {
  const [shown, more] = useFirst(rows, 20);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="grid">
        <thead><tr>{heads.map(h => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{shown.map((cells, i) => <tr key={i}>{cells.map((c, j) => (j ? <td key={j} data-label={heads[j]}>{c}</td> : <th key={j} scope="row">{c}</th>))}</tr>)}</tbody>
      </table>
      {more}
    </div>
  );
}
