import type { ComponentChildren } from "preact";
import { Actions, type Action } from "./actions";
import { ask, type GPU, type Link, type Nodes, type NodeStatus, type Status } from "./api";
import { bytes, count, dash, percent, plural, seconds, since, speed } from "./format";
import { Badge, Bar, Facts, Grid, Part, Trail, workerLink } from "./parts";
import { usePoll } from "./poll";
import type { Route } from "./route";
import { asOptions, bare, Listing, type Column } from "./table";
import { gpuLevel, gpuText } from "./workers";

export const nodeLink = (name: string): string => "#/nodes/" + encodeURIComponent(name);

const worst = ["dead", "draining", "degraded", "unknown", "healthy"];

/** health is that of a node's worst GPU. One without data hides no fault, and is no health either. */
function health(n: NodeStatus): string {
  const states = (n.gpus ?? []).map(g => g.health.state || "unknown");
  return worst.find(s => states.includes(s)) ?? "unknown";
}

const mark = (n: NodeStatus): string => [n.drain && "draining", n.cordon && "cordoned"].filter(v => v).join(", ");
const driver = (n: NodeStatus): string => (n.driver && n.driver !== "ready" ? n.driver : "");

/** known adds up what is known of GPUs; undefined where nothing is. */
function known(gpus: GPU[] | undefined, value: (g: GPU) => number | undefined): number | undefined {
  return gpus?.some(value) ? gpus.reduce((sum, g) => sum + (value(g) ?? 0), 0) : undefined;
}

const memory = (gpus: GPU[] | undefined) => [known(gpus?.filter(g => g.total), g => g.used), known(gpus, g => g.total)] as const;

function Used({ used, total }: { used: number | undefined; total: number | undefined }) {
  return total ? <><Bar share={(used ?? 0) / total} />{percent((used ?? 0) / total)} of {bytes(total)}</> : <>{dash}</>;
}

const nvlinks = (gpus: GPU[] | undefined): string => {
  const all = known(gpus, g => g.links);
  return all ? `${count(known(gpus, g => g.links_up) ?? 0)} of ${count(all)} up` : dash;
};

const columns: Column<NodeStatus>[] = [
  { id: "name", phone: "name", rem: 0, title: "Node", text: true, from: 0, value: n => n.name, cell: n => <a href={nodeLink(n.name)} title={n.name}>{n.name}</a> },
  { id: "gpus", phone: "mark", rem: 9, title: "GPUs", text: true, from: 0, value: health, cell: n => <Badge text={gpuText(health(n))} level={gpuLevel[health(n)]} /> },
  { id: "mark", rem: 9, title: "Mark", text: true, from: 900, value: mark, cell: n => mark(n) || dash },
  { id: "workers", phone: "fact", rem: 6.5, title: "Workers", from: 0, value: n => n.workers.length, cell: n => count(n.workers.length) },
  { id: "number", phone: "fact", rem: 6.5, title: "GPUs", from: 700, value: n => n.gpus?.length ?? -1, cell: n => count(n.gpus?.length) },
  { id: "memory", phone: "line", rem: 14, title: "GPU memory", from: 800, value: n => memory(n.gpus)[1] ?? -1, cell: n => <Used used={memory(n.gpus)[0]} total={memory(n.gpus)[1]} /> },
  { id: "nvlink", rem: 9, title: "NVLink", from: 1100, value: n => known(n.gpus, g => g.links_up) ?? -1, cell: n => nvlinks(n.gpus) },
  { id: "tier", phone: "line", rem: 14, title: "KV tier", from: 0, value: n => n.tier?.used ?? -1, cell: n => <Used used={n.tier?.used} total={n.tier?.bytes} /> },
  { id: "driver", rem: 14, title: "Driver", text: true, from: 1300, value: n => n.driver ?? "", cell: n => n.driver || dash },
  { id: "version", rem: 10, title: "Sidecar", text: true, from: 1500, value: n => n.version, cell: n => n.version || dash },
];

export const alone = "The router is in no cluster, so no sidecar tells it of nodes, GPUs, links and KV tiers. Start it with --cluster, and \"warmpath node\" on each node.";

export function NodeList({ route }: { route: Route }) {
  const { got, error } = usePoll<Nodes>("/nodes");
  if (!got) return <p class="card nothing">{error ? "The router does not tell its nodes: " + error.message : "Reading the cluster's nodes…"}</p>;
  return (
    <Listing title="Nodes" one="node" rows={got.nodes} id={n => n.name} text={n => [n.name, driver(n), ...n.workers.map(w => `${w.url} ${w.model ?? ""}`), ...(n.gpus ?? []).flatMap(g => [g.uuid, g.name, ...(g.health.reasons ?? [])])].join(" ")}
      hint="name, worker, GPU, reason" columns={columns} first="name" route={route} empty={got.cluster ? "The cluster has no nodes yet: start \"warmpath node\" on each." : alone}
      filters={[{ id: "health", label: "GPUs", options: asOptions(got.nodes.map(health)).map(([v]) => [v, gpuText(v)]), keep: (n, v) => health(n) === v }]}>
      {got.cluster && !got.up && <p class="warn">The cluster's NATS does not answer: this is its last state.</p>}
    </Listing>
  );
}

const worstLinks = ["bad", "warn", "none", "good"];
/** badness orders links: the worst is first. */
export const badness = (l: Link): number => worstLinks.indexOf(linkState(l).level);

export function linkState(l: Link): { text: string; level: string } {
  if (l.broken) return { text: "broken", level: "bad" };
  if (l.slow) return { text: "slow", level: "warn" };
  return l.read || l.write ? { text: "measured", level: "good" } : { text: "no data", level: "none" };
}

const never = "0001-"; // a time that Go has not set
export const measured = (l: Link): string => (l.at.startsWith(never) ? "never" : since(l.at) + " ago");
export const remarks = (l: Link): string => [l.broken, l.slow, l.unknown && "last try: " + l.unknown].filter(v => v).join("; ");

function actions(n: NodeStatus): Action[] {
  const everywhere = "at every router of the cluster", workers = plural(n.workers.length, "worker");
  const mark = (what: "drain" | "cordon", on: boolean) => () => ask("/workers/" + what, "POST", { node: n.name, [what]: on });
  return [
    n.drain
      ? { title: "End drain", ask: `Its ${workers} get requests again ${everywhere}, but for those that are drained on their own.`, run: mark("drain", false) }
      : { title: "Drain", ask: `Its ${workers} get no new requests ${everywhere}; those in flight go on to their end.`, run: mark("drain", true) },
    n.cordon
      ? { title: "End cordon", ask: `New workers of this node are taken ${everywhere}.`, run: mark("cordon", false) }
      : { title: "Cordon", ask: `Its ${workers} serve on, but new ones of this node are kept out ${everywhere}.`, run: mark("cordon", true) },
  ];
}

export function Node({ name, status }: { name: string; status: Status }) {
  const { got, error, refresh } = usePoll<Nodes>("/nodes?name=" + encodeURIComponent(name));
  const n = got?.nodes[0];
  return (
    <>
      <Trail to="#/nodes" view="Nodes" name={name} />
      <div class="heading">
        <h1 class="address">{name}</h1>
        {n && <Badge text={gpuText(health(n))} level={gpuLevel[health(n)]} />}
        {n && mark(n) && <span class="note">{mark(n)}</span>}
        {n && <Actions list={actions(n)} name={name} refresh={refresh} />}
      </div>
      {!n && <p class="card nothing" role="status">{error ? error.message : "Reading the node…"}</p>}
      {n && <Known n={n} status={status} />}
    </>
  );
}

function Known({ n, status }: { n: NodeStatus; status: Status }) {
  const t = n.tier, d = n.directory;
  const worker = (url: string): ComponentChildren => {
    const rank = status.workers.find(w => w.url === url);
    return rank ? <a href={workerLink(rank.id)}>{bare(url)}</a> : <>{bare(url)} <span class="note">not used by this router</span></>;
  };
  const numbers = new Map((n.gpus ?? []).map(g => [g.uuid, g.index]));
  return (
    <>
      <div class="parts">
        <Part title="Sidecar">
          <Facts list={[["Version", n.version || dash], ["Started", since(n.started) + " ago"], ["Address", n.control ?? dash], ["GPU driver", n.driver ?? dash], ["Marked by operators", mark(n) || "no"]]} />
        </Part>
        <Part title="KV tier">
          {t ? <Facts list={[
            ["Used", <Used used={t.used} total={t.bytes} />], ["Pages", count(t.pages)], ["Speed to its engines", speed(t.speed)], ["Endpoint", t.endpoint ?? dash], ["NIXL agent", t.agent || "none: no NIXL"],
            ...(d ? [["Known to this router", `${plural(d.pages, "page")} of ${plural(d.kinds, "kind")}${d.known ? "" : ", not complete"}`], ["Last report", seconds(d.silence) + " ago"]] as [string, string][] : []),
          ]} /> : <p class="note">The node keeps no KV tier.</p>}
        </Part>
      </div>
      <Part title="GPUs">
        {n.gpus?.length ? <Grid label="GPUs" heads={["GPU", "Health", "Memory", "NVLink", "Speed left", "Reasons"]} rows={n.gpus.map(g => [
          <>GPU {g.index} <small>{g.name}</small></>, <Badge text={gpuText(g.health.state)} level={gpuLevel[g.health.state || "unknown"]} />, <Used used={g.used} total={g.total} />, nvlinks([g]),
          g.health.weight ? percent(g.health.weight) : dash, [...(g.health.no_tp ? ["must not compute with others"] : []), ...(g.health.reasons ?? [])].join("; ") || dash,
        ])} /> : <p class="note">The sidecar tells of no GPUs{driver(n) && `: ${driver(n)}`}.</p>}
      </Part>
      <Part title="Workers">
        {n.workers.length ? <Grid label="Workers" heads={["Worker", "Role", "Model", "GPUs"]} rows={n.workers.map(w => [
          worker(w.url), w.role ?? dash, w.model ?? dash, w.gpus?.map(id => numbers.get(id) ?? id).join(", ") || dash,
        ])} /> : <p class="note">The sidecar has found no worker.</p>}
      </Part>
      <Part title="Links from here">
        {n.links?.length ? <Grid label="Links" heads={["To", "State", "Path", "Write", "Read", "Latency", "Measured", "Remarks"]} rows={[...n.links].sort((a, b) => badness(a) - badness(b)).map(l => [
          <a href={nodeLink(l.to)}>{l.to}</a>, <Badge {...linkState(l)} />, l.path || dash, speed(l.write), speed(l.read), l.latency ? seconds(l.latency) : dash, measured(l), remarks(l) || dash,
        ])} /> : <p class="note">No link was measured from this node.</p>}
      </Part>
    </>
  );
}
