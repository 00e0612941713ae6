// Pieces that several views are made of.

import type { ComponentChildren } from "preact";

export function Badge({ text, level }: { text: string; level: string | undefined }) {
  return <span class={"badge " + (level ?? "warn")}><i class={"dot " + (level ?? "warn")} />{text}</span>;
}

export function Bar({ share }: { share: number }) {
  return <span class="bar" aria-hidden="true"><i style={{ width: `${100 * Math.min(1, Math.max(0, share))}%` }} /></span>;
}

export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return <section class="card part"><h2>{title}</h2>{children}</section>;
}

export function Facts({ list }: { list: [string, ComponentChildren][] }) {
  return <dl class="facts">{list.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Trail({ to, view, name }: { to: string; view: string; name: string }) {
  return <nav class="trail" aria-label="Place"><a href={to}>{view}</a> <span aria-hidden="true">/</span> <span>{name}</span></nav>;
}

/** Grid is a short table: heads, and rows of cells, the first of which names its row. */
export function Grid({ label, heads, rows }: { label: string; heads: string[]; rows: ComponentChildren[][] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="grid">
        <thead><tr>{heads.map(h => <th key={h} scope="col">{h}</th>)}</tr></thead>
        <tbody>{rows.map((cells, i) => <tr key={i}>{cells.map((c, j) => (j ? <td key={j}>{c}</td> : <th key={j} scope="row">{c}</th>))}</tr>)}</tbody>
      </table>
    </div>
  );
}
