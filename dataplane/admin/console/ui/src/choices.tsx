import { useEffect, useState } from "preact/hooks";
import { ask, type ExplainedChoice, type RecentChoice, type RecentChoices } from "./api";
import { Answer } from "./explain";
import { count, dash, percent, plural } from "./format";
import { Bar, Trail } from "./parts";
import { usePoll } from "./poll";
import type { Route } from "./route";
import { bare, asOptions, Listing, type Column } from "./table";

const link = (c: RecentChoice): string => "#/choices/" + c.number;
const time = (c: RecentChoice): string => new Date(c.at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 });
const share = (c: RecentChoice): number => (c.tokens ? c.cached / c.tokens : 0);
const to = (c: RecentChoice): string => bare(c.worker) + (c.decode ? " → " + bare(c.decode) : "");
const why = (c: RecentChoice): string => [c.again ? "tried again: " : "", c.why, c.decode_why ? `; ${c.decode_why}` : ""].join("");

const columns: Column<RecentChoice>[] = [
  { id: "time", phone: "name", rem: 8, title: "Time", text: true, from: 0, value: c => c.number, cell: c => <a href={link(c)} aria-label={`Choice ${c.number} at ${time(c)}`}>{time(c)}</a> },
  { id: "worker", phone: "line", rem: 14, title: "Worker", text: true, from: 0, value: to, cell: c => <span title={to(c)}>{to(c)}</span> },
  { id: "why", phone: "line", rem: 0, title: "Reason", text: true, from: 0, value: why, cell: c => <span title={why(c)}>{why(c)}</span> },
  { id: "tokens", phone: "fact", rem: 7, title: "Tokens", from: 700, value: c => c.tokens, cell: c => (c.exact ? "" : "≈ ") + count(c.tokens) },
  { id: "cached", phone: "fact", rem: 8, title: "Cached", from: 800, value: share, cell: c => (c.tokens ? <><Bar share={share(c)} />{percent(share(c))}</> : dash) },
  { id: "candidates", rem: 8.5, title: "Candidates", from: 1100, value: c => c.candidates, cell: c => count(c.candidates) },
  { id: "request", rem: 22, title: "Request", text: true, from: 1300, value: c => c.request ?? "", cell: c => <span title={c.request}>{c.request || dash}</span> },
  { id: "model", rem: 18, title: "Model", text: true, from: 1600, value: c => c.model, cell: c => <span title={c.model}>{c.model}</span> },
];

export function Choices({ route }: { route: Route }) {
  const [live, setLive] = useState(true);
  const { got, error } = usePoll<RecentChoices>("/choices", live);
  const all = got?.choices ?? [];
  if (!got) return <p class="card nothing">{error ? "The router does not tell its choices: " + error.message : "Reading the router's choices…"}</p>;
  const newest = all[0], oldest = all[all.length - 1];
  const made = newest && oldest ? newest.turn - oldest.turn + 1 : 0;
  return (
    <Listing title="Choices" one="choice" rows={all} id={c => String(c.number)} text={c => `${c.request ?? ""} ${c.worker} ${c.decode ?? ""} ${c.model} ${why(c)}`} hint="request, worker, reason"
      columns={columns} first="-time" route={route} empty="No request was sent to a worker yet. Try a prompt to see where it would go."
      filters={[
        { id: "worker", label: "Worker", options: asOptions(all.flatMap(c => [c.worker, c.decode ?? ""])), keep: (c, v) => c.worker === v || c.decode === v },
        { id: "why", label: "Reason", options: asOptions(all.map(c => c.why)), keep: (c, v) => c.why === v },
      ]}>
      {made > all.length && <p class="note">of {count(made)} in this time: of many, four a second are kept</p>}
      <div class="actions">
        <button type="button" aria-pressed={!live} onClick={() => setLive(!live)}>Hold</button>
        <a class="button" href="#/explain">Try a prompt</a>
      </div>
    </Listing>
  );
}

/** Chosen is one choice with all its candidates, as they were. */
export function Chosen({ number }: { number: string }) {
  const [got, setGot] = useState<ExplainedChoice>();
  const [error, setError] = useState("");
  useEffect(() => void ask<ExplainedChoice>("/choices?number=" + encodeURIComponent(number)).then(setGot, (e: Error) => setError(e.message)), []);
  const c = got?.choice;
  return (
    <>
      <Trail to="#/choices" view="Choices" name={number} />
      <div class="heading"><h1>Choice {number}</h1>{c && <p class="note">at {time(c)}, among {plural(c.candidates, "candidate")}{c.again && ", after an attempt elsewhere had failed"}</p>}</div>
      {error && <p class="card nothing" role="alert">{error}</p>}
      {c?.request && <p class="note address">Request {c.request}</p>}
      {got && <Answer x={got.explained} />}
    </>
  );
}
