#!/usr/bin/env python3
"""The tables of compare.py: medians over rounds, and medians of the ratios to HAProxy within a round.

  table.py raw.jsonl...      prints them again
"""
import json
import statistics
import sys

BASE = "haproxy"
# No router. Workers that publish events answer later by themselves, since they share cores with the load: what a router adds is over those.
NONE = {"warmpath": "direct-events", "base": "direct-events"}
DIRECT = ("direct", "direct-events")


def median(values):
    values = [v for v in values if v is not None]
    return statistics.median(values) if values else None


def number(v):
    if v is None:
        return "-"
    if abs(v) >= 1000:
        return f"{v:,.0f}"
    return f"{v:.1f}" if abs(v) >= 10 else f"{v:.3f}"


class Cells:
    """What was measured in one scenario and mode: {router: {round: measured}}."""

    def __init__(self, records, scenario, mode):
        self.by = {}
        for r in records:
            if r["scenario"] == scenario and r["mode"] == mode:
                self.by.setdefault(r["router"], {})[r.get("round", 0)] = r.get("measured")

    def values(self, router, get):
        got = {i: get(m) for i, m in self.by.get(router, {}).items() if m and m["answered"]}
        return {i: v for i, v in got.items() if v is not None}

    def median(self, router, get):
        return median(self.values(router, get).values())

    def ratio(self, router, get):
        """The median of the ratios to HAProxy in the same round."""
        ours, base = self.values(router, get), self.values(BASE, get)
        return median([v / base[i] for i, v in ours.items() if base.get(i)])

    def over(self, router, get):
        """The median of the differences to no router in the same round."""
        none = NONE.get(router, "direct")
        ours, base = self.values(router, get), self.values(none if none in self.by else "direct", get)
        return median([v - base[i] for i, v in ours.items() if i in base])

    def cell(self, router, get):
        v, ratio = self.median(router, get), self.ratio(router, get)
        return number(v) + (f" [{ratio:.2f}]" if v is not None and ratio is not None and router not in (BASE, *DIRECT) else "")


def rate(m):
    return m["rate"]


def cpu(m):
    return m["cpu_us"] or None


def time_of(name):
    """A latency in milliseconds; of streams that of the first byte."""
    return lambda m: m["first_us" if m["stream"] else "latency_us"][name] / 1e3


def peak(m):
    return m["router"]["peak_rss_bytes"] / 2**20 if m.get("router") else None


def rows(records, scenario):
    closed, fixed = Cells(records, scenario, "closed"), Cells(records, scenario, "open")
    for router in dict.fromkeys([*closed.by, *fixed.by]):
        mine = [r for r in records if r["scenario"] == scenario and r["router"] == router]
        if all("cannot" in r for r in mine):
            yield [router, *["-"] * 9, f"cannot: {mine[0]['cannot']}"]
            continue
        both = [r["measured"] for r in mine if r.get("measured")]
        failed = sum(1 for r in mine if r.get("failed"))
        errors = sum(sum(m["errors"].values()) for m in both)
        yield [
            router, closed.cell(router, rate), closed.cell(router, cpu), fixed.cell(router, cpu),
            *(number(fixed.over(router, time_of(q)) if router not in DIRECT else fixed.median(router, time_of(q))) for q in ("p50", "p90", "p99", "p999")),
            number(median([m["gap_us"]["p99"] / 1e3 for m in both if m["stream"]])),
            number(max([p for m in both if (p := peak(m))], default=None)),
            f"{errors}" + (f" and {failed} runs failed" if failed else ""),
        ]


HEAD = ["router", "max req/s", "CPU us closed", "CPU us open", "+p50 ms", "+p90 ms", "+p99 ms", "+p99.9 ms", "gap p99 ms", "peak MiB", "errors"]


def lined(head, all_rows):
    widths = [max(len(r[i]) for r in [head, *all_rows]) for i in range(len(head))]
    return "\n".join("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))) for r in [head, *all_rows])


def table(records):
    text = f"Medians over rounds; in brackets, the median ratio to {BASE} in a round. Times are over those of no router, whose own are shown;\n" \
           "of streams they are those of the first byte; all at the fixed rate. CPU is that of the router for a request.\n"
    for scenario in dict.fromkeys(r["scenario"] for r in records if not r["scenario"].startswith("memory")):
        some = next((r["measured"] for r in records if r["scenario"] == scenario and r["mode"] == "open" and r.get("measured")), None)
        fixed = f", {some['target_rate']:.0f}/s" if some else ""
        text += f"\n{scenario}{fixed}\n{lined(HEAD, list(rows(records, scenario)))}\n"
    return text


def memory_table(records):
    head = ["9 s of unique 64 KiB prompts", "API", "prompts", "peak MiB", "at the end", "errors"]
    lines = []
    for r in records:
        if not r["scenario"].startswith("memory"):
            continue
        m = r.get("measured")
        lines.append([r["router"], r.get("api", r["scenario"][7:])] + (
            [number(float(m["answered"])), number(peak(m)), number(m["router"]["rss_bytes"] / 2**20), str(sum(m["errors"].values()))]
            if m else ["-", "-", "-", f"cannot: {r.get('cannot') or r.get('failed')}"]))
    return "\n" + lined(head, lines) + "\n"


if __name__ == "__main__":
    all_records = [json.loads(line) for name in sys.argv[1:] for line in open(name)]
    print(table(all_records) + (memory_table(all_records) if any(r["scenario"].startswith("memory") for r in all_records) else ""))
