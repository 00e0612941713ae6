"""Added latency by those measurements only in which the client itself was on time (p99 of its lateness below 0.4 ms): medians, less those of no router.

  quiet.py raw.jsonl…
"""
import json, statistics, sys
recs = [json.loads(l) for f in sys.argv[1:] for l in open(f)]
limit = 0.4
NONE = {"warmpath": "direct-events", "base": "direct-events"}
print(f"{'':10}{'router':17}{'n':>3}" + "".join(f"{x:>20}" for x in ("p50 ms (+)", "p90 ms (+)", "p99 ms (+)", "+p99 to haproxy's")))
for sc in dict.fromkeys(r["scenario"] for r in recs):
    def quiet(router): return [r["measured"]["latency_us"] for r in recs if r["scenario"] == sc and r["router"] == router and r.get("measured") and r["measured"]["late_us"]["p99"] < 1e3 * limit]
    def at(router, p): return statistics.median([m[p] / 1e3 for m in quiet(router)] or [float("nan")])
    over = lambda n, p: at(n, p) - at(NONE.get(n, "direct"), p)
    for n in dict.fromkeys(r["router"] for r in recs):
        row = "".join(f"{at(n, p):10.3f} ({over(n, p):+.3f})".rjust(20) for p in ("p50", "p90", "p99"))
        print(f"{sc:10}{n:17}{len(quiet(n)):>3}{row}" + ("" if n.startswith("direct") else f"{over(n, 'p99') / over('haproxy', 'p99'):.2f}".rjust(20)))
