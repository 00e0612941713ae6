import type { WhatIf, WhatIfPolicy } from "./api";
import { count, dash, percent, plural, short } from "./format";
import { Bar, Grid } from "./parts";
import { usePoll } from "./poll";

const names: Record<string, string> = { "round-robin": "Round robin", "least-load": "Least load", "most-overlap": "Most overlap" };
const heads = ["Policy", "Found in cache", "Left to compute", "Ahead of each", "Workers", "Busiest has", "Same worker"];

function row(p: WhatIfPolicy, of: WhatIf) {
  const share = (n: number) => (of.tokens ? percent(n / of.tokens) : dash), found = of.tokens ? p.cached / of.tokens : 0;
  return [
    p.made ? <><b>{p.policy}</b>, as made</> : names[p.policy] ?? p.policy, <><Bar share={found} />{share(p.cached)}</>, short(p.left) + " tokens", short(Math.round(p.ahead / of.choices)) + " tokens",
    count(p.ranks), percent(p.most / of.choices), p.made ? dash : percent(p.same / of.choices),
  ];
}

/** What other policies would have made of the last choices. */
export function OtherPolicies() {
  const { got, error } = usePoll<WhatIf>("/what_if");
  if (!got) return <p class="card nothing">{error ? "The router does not tell its choices: " + error.message : "Reading the router's choices…"}</p>;
  return (
    <>
      <div class="heading">
        <h1>What if</h1>
        {got.choices > 0 && <p class="note">The last {plural(got.choices, "choice")}, of {short(got.tokens)} prompt tokens, as other policies would have made them.</p>}
      </div>
      {got.choices === 0 ? <p class="card nothing">{got.left_out > 0 ? "The policy in force asks for no overlap, so the router does not know what the caches held." : "No request was sent to a worker yet."}</p> : (
        <section class="card part">
          <Grid label="Policies" heads={heads} rows={got.policies.map(p => row(p, got))} />
          <p class="note">Each choice is judged alone, with caches and loads as they were when it was made. Had the policy made all of them, the caches would be others: fewer hits where it
            scatters prefixes, longer queues where it gathers them. “warmpath bench policies --trace” follows the caches of each policy through your access log.</p>
          <p class="note">“Ahead of each” are the prompt tokens that its worker computes before it; “Same worker” is the share of choices that would have been the same. A pair counts by its prefill worker. The router keeps at most four choices a second.</p>
          {got.left_out > 0 && <p class="note">{plural(got.left_out, "choice is", "choices are")} left out: their policy asked for no overlap.</p>}
        </section>
      )}
    </>
  );
}
