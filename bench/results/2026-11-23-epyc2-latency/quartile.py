"""Added latency, by the lower quartile over rounds of each percentile, less that of no router: what rounds show in which little else went on.

  quartile.py raw.jsonl…
"""
import json, sys
recs = [json.loads(l) for f in sys.argv[1:] for l in open(f)]
NONE = {"warmpath": "direct-events", "base": "direct-events"}
def q(v):
    v = sorted(v); return v[(len(v) - 1) // 4]
print(f"{'':10}{'router':17}" + "".join(f"{x:>20}" for x in ("p50 ms (+)", "p90 ms (+)", "p99 ms (+)", "p99 to haproxy")))
for sc in dict.fromkeys(r["scenario"] for r in recs):
    def at(router, p): return q([r["measured"]["latency_us"][p] / 1e3 for r in recs if r["scenario"] == sc and r["router"] == router and r.get("measured")])
    over = lambda n, p: at(n, p) - at(NONE.get(n, "direct"), p)
    for n in dict.fromkeys(r["router"] for r in recs):
        row = "".join(f"{at(n, p):10.3f} ({over(n, p):+.3f})".rjust(20) for p in ("p50", "p90", "p99"))
        print(f"{sc:10}{n:17}{row}" + ("" if n.startswith("direct") else f"{over(n, 'p99') / over('haproxy', 'p99'):.2f}".rjust(20)))
