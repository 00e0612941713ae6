import type { LintFinding, Status } from "./api";
import { count, percent, plural, short } from "./format";
import { Facts, Part } from "./parts";

function Finding({ f }: { f: LintFinding }) {
  return (
    <Part title={`${f.model || "Any model"}: ${percent(f.lost)} of the tokens miss the cache without need`}>
      <p>{f.advice}</p>
      <p class="excerpt">{f.example}</p>
      {f.better && <><p class="note">In a better order:</p><p class="excerpt">{f.better}</p></>}
      <Facts list={[
        ["Prompts of this template", count(f.prompts)], ["Tokens of a prompt", short(f.tokens)], ["The first change", `${f.part}, after ${short(f.before)} tokens`],
        ["Same for all, behind it", short(f.stable_after) + " tokens"], ["Cached now, at most", percent(f.now)], ["With stable parts first", percent(f.then)],
      ]} />
    </Part>
  );
}

export function Prompts({ status: { lint: r } }: { status: Status }) {
  return (
    <>
      <div class="heading">
        <h1>Prompts</h1>
        {r && <p class="note">Of {plural(r.prompts, "sampled prompt")}, {percent(r.now)} of the tokens are in a prefix that another prompt shares; with stable parts first, {percent(r.then)} would be.</p>}
      </div>
      {!r && <p class="card nothing">Nothing to show. With --lint-sample 0.01 the router checks a share of the prompts for changing parts before stable ones, and reports them here once it has a few. "warmpath lint" checks a file.</p>}
      {r?.findings.length === 0 && <p class="card nothing">No template has changing parts before stable ones.</p>}
      <div class="parts">{r?.findings.map((f, i) => <Finding key={i} f={f} />)}</div>
    </>
  );
}
