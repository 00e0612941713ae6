import { useState } from "preact/hooks";
import { ask, type Explained, type ExplainedRank, type Status } from "./api";
import { count, plural, seconds } from "./format";
import { Trail, useFirst, workerLink } from "./parts";
import { bare } from "./table";

interface Term {
  id: string;
  text: string;
}

// In the order of the sum. Those after health are delays of other requests.
const terms: Term[] = [
  { id: "queue", text: "prompts sent there before" }, { id: "compute", text: "this prompt's uncached tokens" }, { id: "tier", text: "copies from slower tiers" },
  { id: "pool", text: "until the KV pool has room" }, { id: "health", text: "lost speed of its GPUs" },
  { id: "later", text: "delay of later prompts" }, { id: "streams", text: "answers that wait meanwhile" }, { id: "sessions", text: "pages that others need again" },
];
const decodeTerms: Term[] = [
  { id: "transfer", text: "the prompt's KV that it lacks" }, { id: "room", text: "until it has pages and a place" }, { id: "step", text: "slower answers beside it" },
];

interface Row {
  id: string;
  values: number[];
  total: number;
  winner: boolean;
  note: string;
}

const kinds: Record<string, string> = { text: "Text", chat: "Chat, as JSON of messages", ids: "Token ids", body: "Whole body, as JSON" };
const examples: Record<string, string> = {
  text: "Once upon a time", chat: '[{"role": "user", "content": "Hello"}]', ids: "101, 2023, 2003", body: '{"model": "…", "messages": [{"role": "user", "content": "Hello"}]}',
};

/** bodyOf makes the request whose choice is asked for. */
function bodyOf(kind: string, text: string, model: string): string {
  const named = model ? { model } : {};
  switch (kind) {
    case "chat":
      return JSON.stringify({ ...named, messages: JSON.parse(text) as unknown });
    case "ids":
      return JSON.stringify({ ...named, input_ids: text.split(/[\s,]+/).filter(v => v).map(Number) });
    case "body":
      return text;
    default:
      return JSON.stringify({ ...named, prompt: text });
  }
}

export function Explain({ status }: { status: Status }) {
  const [kind, setKind] = useState("text");
  const [text, setText] = useState("");
  const [model, setModel] = useState("");
  const [answer, setAnswer] = useState<Explained | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (e: Event): Promise<void> => {
    e.preventDefault();
    let body: string;
    try {
      body = bodyOf(kind, text || examples[kind] || "", model);
    } catch {
      setError("This is no JSON: " + (kind === "chat" ? "write a list of messages, as in the example." : "write a request's body."));
      return;
    }
    setBusy(true);
    try {
      setAnswer(await ask<Explained>("/explain", "POST", body));
      setError("");
    } catch (failure) {
      setError((failure as Error).message);
      setAnswer(null);
    }
    setBusy(false);
  };
  return (
    <>
      <Trail to="#/choices" view="Choices" name="Try a prompt" />
      <div class="heading"><h1>Try a prompt</h1><p class="note">Where would a prompt go, and why? It is sent to no worker.</p></div>
      <form class="card try" onSubmit={e => void submit(e)}>
        <div class="filters">
          <label class="choice"><span>Prompt</span>
            <select value={kind} onChange={e => setKind(e.currentTarget.value)}>{Object.entries(kinds).map(([k, v]) => <option key={k} value={k}>{v}</option>)}</select>
          </label>
          {kind !== "body" && (
            <label class="choice"><span>Model</span>
              <select value={model} onChange={e => setModel(e.currentTarget.value)}>
                <option value="">not named</option>
                {status.models.map(m => <option key={m.model} value={m.model}>{m.model}</option>)}
              </select>
            </label>
          )}
        </div>
        <textarea aria-label="Prompt" rows={5} placeholder={examples[kind]} value={text} onInput={e => setText(e.currentTarget.value)} spellcheck={false} />
        <button type="submit" class="primary" disabled={busy}>{busy ? "Asking…" : "Explain"}</button>
        <div role="status">{error && <p class="fault"><span class="level bad">Refused</span> {error}</p>}</div>
      </form>
      {answer && <Answer x={answer} />}
    </>
  );
}

function overlapText(r: ExplainedRank, tokens: number): string {
  const o = r.overlap;
  if (!o) return "";
  const parts = [`${count(o.credited)} of ${count(tokens)} cached`];
  if (o.host) parts.push(`${count(o.host)} on the host`);
  if (o.tier) parts.push(`${count(o.tier)} in the KV tier`);
  if (o.remote) parts.push(`${count(o.remote)} at a peer`);
  return parts.join(", ");
}

export function Answer({ x }: { x: Explained }) {
  const candidates = x.ranks.filter(r => r.cost).map((r): Row => ({
    id: r.id, winner: r.winner === true, total: r.cost!.total, values: terms.map(t => r.cost![t.id as keyof typeof r.cost & string] as number), note: overlapText(r, x.prompt.tokens),
  })).sort((a, b) => Number(b.winner) - Number(a.winner) || a.total - b.total);
  const excluded = x.ranks.filter(r => !r.cost);
  const decodes = (x.pair?.decodes ?? []).map((d): Row => ({
    id: d.id, winner: d.winner === true, total: d.cost.total, values: [d.cost.transfer, d.cost.room, d.cost.step], note: d.broken ? "no transfer works" : `${count(d.held)} tokens need no transfer`,
  })).sort((a, b) => Number(b.winner) - Number(a.winner) || a.total - b.total);
  const p = x.prompt;
  return (
    <>
      <section class="card verdict" aria-live="polite">
        {x.winner ? <p class="big">To <a href={workerLink(x.winner)}>{x.winner}</a>{x.why && <>: {x.why}</>}</p> : <p class="big bad">To no worker: {x.error}</p>}
        {x.pair?.chosen && <p>Decoded by <a href={workerLink(x.pair.decode)}>{x.pair.decode}</a>{x.pair.why && <>: {x.pair.why}</>}. First token expected after {seconds(x.pair.ttft)}.</p>}
        {x.overruled && <p class="warn">{x.overruled}</p>}
        <p class="note">{p.exact ? plural(p.tokens, "token") : `about ${plural(p.tokens, "token")} (estimated)`}{p.model && `, model ${p.model}`}, policy {x.policy}, seed {x.seed}</p>
      </section>
      {candidates.length > 0 && <Bars title={x.pair ? "Prefill candidates" : "Candidates"} rows={candidates} terms={terms} />}
      {decodes.length > 0 && <Bars title="Decode candidates" rows={decodes} terms={decodeTerms} />}
      {excluded.length > 0 && (
        <section class="card part">
          <h2>No candidates</h2>
          <ul class="plain">{excluded.slice(0, 200).map(r => <li key={r.id}><a href={workerLink(r.id)}>{r.id}</a> <span class="note">{r.state}: {r.excluded}</span></li>)}</ul>
        </section>
      )}
    </>
  );
}

function Bars({ title, rows, terms }: { title: string; rows: Row[]; terms: Term[] }) {
  const [shown, more] = useFirst(rows, 50);
  const scale = Math.max(...shown.map(r => r.values.reduce((a, v) => a + Math.max(0, v), 0)), 1e-9);
  const used = terms.map((_, i) => rows.some(r => r.values[i]! > 0));
  return (
    <section class="card part">
      <h2>{title}</h2>
      <p class="note">Cost in seconds of each of {plural(rows.length, "candidate")}, by its terms: less is better.</p>
      <ul class="legend">
        {terms.map((t, i) => used[i] && <li key={t.id}><i class={"t" + (i + 1)} />{t.id}: {t.text}</li>)}
        {!used.some(u => u) && <li>Every term is zero: nothing tells the candidates apart.</li>}
      </ul>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}>
        <table class="bars">
          <thead><tr><th scope="col" class="left">Rank</th><th scope="col" class="left wide">Terms</th><th scope="col">Total</th></tr></thead>
          <tbody>
            {shown.map(r => (
              <tr key={r.id} class={r.winner ? "winner" : ""}>
                <th scope="row" class="left"><a href={workerLink(r.id)}>{bare(r.id)}</a>{r.winner && <span class="badge good">chosen</span>}<small>{r.note}</small></th>
                <td class="left wide">
                  <div class="stack" role="img" aria-label={terms.filter((_, i) => r.values[i]! > 0).map(t => `${t.id} ${seconds(r.values[terms.indexOf(t)])}`).join(", ") || "zero"}>
                    {r.values.map((v, i) => v > 0 && <i key={terms[i]!.id} class={"t" + (i + 1)} title={`${terms[i]!.id}: ${seconds(v)}`} style={{ width: `${(100 * v) / scale}%` }} />)}
                  </div>
                  <small>{terms.map((t, i) => [t.id, r.values[i]!] as const).filter(([, v]) => v > 0).map(([id, v]) => `${id} ${seconds(v)}`).join(" · ")}</small>
                </td>
                <td>{seconds(r.total)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </section>
  );
}
