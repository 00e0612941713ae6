import type { HotPrefix, HotPrefixes, Status } from "./api";
import { bytes, count, percent, plural, since } from "./format";
import { Bar, Facts, Part, workerLink } from "./parts";
import { usePoll } from "./poll";
import { bare } from "./table";

const tokens = (p: HotPrefix): string => (p.exact ? "" : "about ") + plural(p.tokens, "token");

function Prefix({ p, of }: { p: HotPrefix; of: number }) {
  const left = p.held - p.holders.length;
  return (
    <Part title={`${count(p.requests)} of ${count(of)} prompts: ${tokens(p)}`}>
      <p class="excerpt">{p.text ?? `Token ids ${p.ids?.join(", ")}${p.tokens > (p.ids?.length ?? 0) ? ", …" : ""}`}</p>
      <p class="note">{[p.model, p.lora && "adapter " + p.lora, p.salted && "with a cache salt", `last ${since(p.at)} ago`].filter(v => v).join(", ")}</p>
      {p.holders.length > 0 ? (
        <Facts list={p.holders.map(h => [
          <a href={workerLink(h.id)}>{bare(h.id)}</a>, <><Bar share={h.tokens / p.tokens} />{percent(h.tokens / p.tokens)}{h.gpu < h.tokens && `, ${percent(h.gpu / p.tokens)} on the GPU`}{h.source !== "exact" && ", by answers"}</>,
        ])} />
      ) : <p class="note">No worker that gets requests is known to hold it.</p>}
      {left > 0 && <p class="note">and {plural(left, "rank")} more</p>}
    </Part>
  );
}

export function Index({ status: s }: { status: Status }) {
  const { got, error } = usePoll<HotPrefixes>("/index");
  if (!got) return <p class="card nothing">{error ? "The router does not tell its prefixes: " + error.message : "Reading the hottest prefixes…"}</p>;
  return (
    <>
      <div class="heading">
        <h1>Index</h1>
        <p class="note">{plural(s.index.blocks, "block")}, {bytes(s.index.bytes)}{s.index.max_bytes > 0 && ` of ${bytes(s.index.max_bytes)}`}. {got.prompts > 0
          && `Below are the prefixes shared by prompts of the last ${plural(got.prompts, "choice")}, in ${since(got.since)}. The router keeps at most four choices a second.`}</p>
      </div>
      {got.prefixes.length === 0 && <p class="card nothing">{got.prompts === 0 ? "The router knows no recent prompts: none was sent yet, or its policy does without them." : `No two of the last ${plural(got.prompts, "prompt")} begin alike for a page or more.`}</p>}
      <div class="parts">{got.prefixes.map((p, i) => <Prefix key={i} p={p} of={got.prompts} />)}</div>
      {got.left_out > 0 && <p class="note">and {plural(got.left_out, "prefix", "prefixes")} of fewer requests</p>}
    </>
  );
}
