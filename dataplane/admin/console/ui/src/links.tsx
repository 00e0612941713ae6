import type { NodeLink, NodeLinks, Status, WorkerStatus } from "./api";
import { count, dash, plural, seconds, speed } from "./format";
import { alone, badness, linkState, measured, nodeLink, remarks } from "./nodes";
import { Badge, Grid, Part } from "./parts";
import { usePoll } from "./poll";
import type { Route } from "./route";
import { asOptions, Listing, unique, type Column } from "./table";

const end = (name: string) => <a href={nodeLink(name)} title={name}>{name}</a>;

const columns: Column<NodeLink>[] = [
  { id: "from", phone: "name", rem: 0, title: "From", text: true, from: 0, value: l => l.from, cell: l => end(l.from) },
  { id: "to", phone: "line", rem: 0, title: "To", text: true, from: 0, value: l => l.to, cell: l => end(l.to) },
  { id: "state", phone: "mark", rem: 8.5, title: "State", text: true, from: 0, value: badness, cell: l => <Badge {...linkState(l)} /> },
  { id: "path", rem: 6, title: "Path", text: true, from: 900, value: l => l.path, cell: l => l.path || dash },
  { id: "write", phone: "fact", rem: 8, title: "Write", from: 0, value: l => l.write, cell: l => speed(l.write) },
  { id: "read", phone: "fact", rem: 8, title: "Read", from: 700, value: l => l.read, cell: l => speed(l.read) },
  { id: "latency", phone: "fact", rem: 7, title: "Latency", from: 800, value: l => l.latency, cell: l => (l.latency ? seconds(l.latency) : dash) },
  { id: "pairs", phone: "fact", rem: 6, title: "Pairs", from: 0, value: l => l.pairs, cell: l => count(l.pairs) },
  { id: "at", rem: 12, title: "Measured", from: 1300, value: l => Date.parse(l.at), cell: measured },
  { id: "remarks", rem: 24, title: "Remarks", text: true, from: 1500, value: remarks, cell: l => <span title={remarks(l)}>{remarks(l) || dash}</span> },
];

/** Pairs are those that this router can make, by model. */
function Pairs({ workers }: { workers: WorkerStatus[] }) {
  const rows = unique(workers.map(w => w.model)).map(model => {
    const of = (role: string) => workers.filter(w => w.model === model && w.role === role);
    const ready = (role: string) => of(role).filter(w => w.state === "ready").length;
    const [p, d] = [of("prefill"), of("decode")];
    return p.length + d.length ? [model, `${count(ready("prefill"))} of ${count(p.length)} ready`, `${count(ready("decode"))} of ${count(d.length)} ready`, count(ready("prefill") * ready("decode"))] : [];
  }).filter(r => r.length);
  return (
    <Part title="Pairs of prefill and decode workers">
      {rows.length ? <Grid label="Pairs" heads={["Model", "Prefill", "Decode", "Pairs"]} rows={rows} /> : <p class="note">No prefill and decode workers: there are no pairs.</p>}
    </Part>
  );
}

export function Links({ status, route }: { status: Status; route: Route }) {
  const { got, error } = usePoll<NodeLinks>("/links");
  if (!got) return <p class="card nothing">{error ? "The router does not tell its links: " + error.message : "Reading the cluster's links…"}</p>;
  return (
    <>
      <Listing title="Links" one="link" rows={got.links} id={l => l.from + "\n" + l.to} text={l => `${l.from} ${l.to} ${l.path} ${remarks(l)}`} hint="node, path, remark" columns={columns} first="state" route={route}
        empty={got.cluster ? "No link was measured: pairs are chosen by usual speeds." : alone + " Pairs are chosen by usual speeds."}
        filters={[
          { id: "state", label: "State", options: asOptions(got.links.map(l => linkState(l).text)), keep: (l, v) => linkState(l).text === v },
          { id: "pairs", label: "Pairs", options: [["yes", "used by pairs"]], keep: l => l.pairs > 0 },
        ]}>
        {got.left_out > 0 && <p class="note">the worst of {plural(got.links.length + got.left_out, "link")}</p>}
      </Listing>
      <Pairs workers={status.workers} />
    </>
  );
}
