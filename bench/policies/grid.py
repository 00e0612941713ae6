#!/usr/bin/env python3
"""Simulates every policy on many workloads, rates and cache sizes, and shows kv beside the best of the others in each.

The second table is of router replicas: kv with 2 and 4 of them, which share nothing, or tell each other each dispatch some time later,
beside the all-knowing router. Raw results and the command are kept.

  bench/policies/grid.py --ours bin/warmpath --trace conversation_trace.jsonl --results bench/results/DATE-HOST-policies

With --held-out it simulates settings that nobody looked at before the constants of kv were fixed, and nothing else: held_out.txt.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import other

FAMILIES = "zipf conversations system agents bursts trap flood scan documents".split()
# Rate, cached tokens of a worker, workers, seed of made traces. The constants of kv were chosen by all of them: what they show is how
# well it was tuned, and HELD_OUT how far that carries.
SETTINGS = [(1, 1_000_000, 8, 1), (1.6, 300_000, 8, 1), (0.7, 150_000, 8, 1), (1.3, 500_000, 8, 7), (2.4, 1_000_000, 16, 7)]
RECORDED = [(1, 1_000_000, 8, 1), (0.8, 300_000, 8, 1), (1.15, 3_000_000, 8, 1), (2.2, 1_000_000, 16, 1)]
# Written down before the first of them was simulated, and not changed since; nor was kv until all were. What they showed has been looked
# at now: the next change of kv's constants wants new ones.
HELD_OUT = [(0.7, 200_000, 6, 101), (1.6, 700_000, 12, 202), (3, 2_000_000, 24, 303), (2, 150_000, 12, 404)]
SHARES = [("nothing", ["--share", "polls"])] + [(f"{hop} late", ["--share", "gossip", "--hop", hop]) for hop in ("1ms", "5ms", "20ms")]


def simulate(args, flags):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        words = ["nice", "-n", "19", args.ours, "bench", "policies", "--advise=false", "--json", out.name, *flags]
        subprocess.run(words, check=True, capture_output=True, env={**os.environ, "GOMAXPROCS": "1"})
        return {r["policy"]: {"ttft": r["ttft"]["mean"] / 1e9, "p99": r["ttft"]["p99"] / 1e9, "hits": r["hits"]} for r in json.load(out)["results"]}


def workloads(args):
    """Name, flags and settings of each."""
    if args.held_out:
        yield from held_out(args)
        return
    if args.trace:
        yield "recorded", ["--trace", args.trace, "--prefill-rate", str(args.prefill_rate)], RECORDED
    for family in FAMILIES:
        yield family, ["--workload", family], SETTINGS


def held_out(args):
    if args.trace:
        yield "recorded", ["--trace", args.trace, "--prefill-rate", str(args.prefill_rate)], HELD_OUT
    for family in FAMILIES:
        yield family, ["--workload", family], HELD_OUT
    with tempfile.TemporaryDirectory() as folder:
        for kind in other.KINDS:
            for setting in HELD_OUT:
                path = os.path.join(folder, kind)
                other.write(path, kind, setting[3], 6000)
                yield "other " + kind, ["--trace", path], [setting]


def means(ratios):
    """Of kv's mean TTFT over each other policy's: the geometric mean over all settings, and the worst of them."""
    lines = ["", f"kv against each, {len(ratios)} settings: geometric mean of the ratios of mean TTFT, the highest and where"]
    for p in sorted(ratios[0][1]):
        high, where = max((r[p], name) for name, r in ratios)
        lines.append(f"{p:>13}  {100 * (math.exp(sum(math.log(r[p]) for _, r in ratios) / len(ratios)) - 1):+6.1f} %  {100 * (high - 1):+6.0f} %  {where}")
    return "\n".join(lines) + "\n"


def policies(args, keep):
    ratios = []
    rows = [["workload", "rate", "cache", "workers", "kv s", "p99 s", "hits %", "best other", "its s", "kv against it", "against sglang-router's rule"]]
    for name, flags, settings in workloads(args):
        for rate, cache, workers, seed in settings:
            got = simulate(args, [*flags, "--rate", str(rate), "--cache-tokens", str(cache), "--workers", str(workers), "--seed", str(seed), "--policy", "all"])
            keep({"workload": name, "rate": rate, "cache": cache, "workers": workers, "seed": seed, "results": got})
            best = min((p for p in got if p not in ("kv", "greedy")), key=lambda p: got[p]["ttft"])
            kv = got["kv"]
            against = {p: kv["ttft"] / x["ttft"] for p, x in got.items() if p not in ("kv", "greedy")}
            ratios.append((f"{name}, rate {rate:g}, {cache:,} tokens, {workers} workers", {**against, "best of them": max(against.values())}))
            rows.append([name, f"{rate:g}", f"{cache:,}", str(workers), f"{kv['ttft']:.3f}", f"{kv['p99']:.2f}", f"{100 * kv['hits']:.1f}", best,
                         f"{got[best]['ttft']:.3f}", *(f"{100 * (kv['ttft'] / got[p]['ttft'] - 1):+.0f} %" for p in (best, "approx"))])
    return text(rows) + means(ratios)


def replicas(args, keep):
    rows = [["workload", "greedy s", "1"] + [f"{n}: {share}" for n in (2, 4) for share, _ in SHARES]]
    for name, flags, _ in workloads(args):
        for more in ([], ["--spread"]) if name == "recorded" else ([],):
            got = simulate(args, [*flags, *more, "--policy", "kv,greedy"])
            greedy = got["greedy"]
            row = [" ".join([name, *more]), f"{greedy['ttft']:.3f}"]
            cases = [("1", got["kv"])]
            for n in (2, 4):
                cases += [(f"{n} {s}", simulate(args, [*flags, *more, "--routers", str(n), *share, "--policy", "kv"])["kv"]) for s, share in SHARES]
            keep({"workload": row[0], "greedy": greedy, "replicas": dict(cases)})
            rows.append(row + [f"{100 * (c['ttft'] / greedy['ttft'] - 1):+.0f} % {100 * (c['hits'] - greedy['hits']):+.1f}" for _, c in cases])
    return text(rows)


def text(rows):
    width = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(r, width)) for r in rows) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the warmpath binary")
    p.add_argument("--trace", help="in Mooncake's format, or an access log; without it only made traces")
    p.add_argument("--prefill-rate", type=int, default=7000, help="of the workers that the trace is played on")
    p.add_argument("--results", required=True, help="folder for grid.jsonl, grid.txt and replicas.txt")
    p.add_argument("--held-out", action="store_true", help="simulate HELD_OUT and nothing else: held_out.jsonl, held_out.txt")
    args = p.parse_args()
    raw = "held_out.jsonl" if args.held_out else "grid.jsonl"
    os.makedirs(args.results, exist_ok=True)

    def keep(record):
        with open(os.path.join(args.results, raw), "a") as f:
            f.write(json.dumps(record) + "\n")
        print(record["workload"], file=sys.stderr)

    best = "Mean TTFT of kv beside the best other policy (of all but the all-knowing one).\n"
    tables = [("held_out.txt", policies, best)] if args.held_out else [
        ("grid.txt", policies, best),
        ("replicas.txt", replicas, "Mean TTFT of kv against the all-knowing router, and its hits in points, by how many routers there are and what they tell each other.\n"),
    ]
    for name, make, note in tables:
        table = note + make(args, keep)
        with open(os.path.join(args.results, name), "w") as f:
            f.write(table)
        print(table)


if __name__ == "__main__":
    main()
