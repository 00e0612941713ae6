#!/usr/bin/env python3
"""Replays one trace through Warmpath and other routers in turn, each with fresh simulated workers, and through the simulator.

Workers are processes with real HTTP and ZMQ whose time runs --time-scale times as fast; so does the trace. The other routers come from
PyPI (bench/proxy/peers.sh). Each round takes the routers in another order. Besides the trace itself, "trap" is the same
requests with nothing in common but their first block: what overlap alone would send to one worker. The simulator
(`warmpath bench policies`) then plays the same requests with the same workers.

  bench/replay/live.py --ours bin/warmpath --trace conversation_trace.jsonl --results bench/results/DATE-HOST-policies-live

What is not installed is left out, and said. Raw results, the machine's state and the commands are kept beside the table.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "proxy"))
from compare import CACHE, Process, ask, autogroup, turn  # noqa: E402
from results import Results, pathless  # noqa: E402
from routers import ROUTERS, free_port  # noqa: E402

# Router: its command in bench/proxy/routers.py, its policy there, and the policy of the simulator that stands for it.
CASES = {
    "warmpath kv": ("warmpath", "kv", "kv"),
    "warmpath round-robin": ("warmpath", "round-robin", "round-robin"),
    "sglang-router cache_aware": ("sglang-router", "cache_aware", "approx"),
    "sglang-router round_robin": ("sglang-router", "round_robin", "round-robin"),
    "smg cache_aware": ("smg", "cache_aware", "approx"),
    "smg round_robin": ("smg", "round_robin", "round-robin"),
}
# smg asks workers for their loads every 10 s of real time (and leaves out those where 8 requests wait). Left alone, that were 80 s of
# workers whose time runs 8 times as fast: the mean TTFT of its cache_aware was 40 s in place of 5.
SMG_POLL = 10
UNIQUE = 1 << 40  # ids of blocks that nobody else has, above all of a trace


def traces(args):
    """Writes the slice of the trace and the trap; returns their files."""
    with open(args.trace) as f:
        lines = [json.loads(line) for line in f if line.strip()][: args.requests]
    files, unique = {}, UNIQUE
    for name in args.workload:
        files[name] = os.path.join(args.scratch, f"{name}.jsonl")
        with open(files[name], "w") as f:
            for line in lines:
                if name == "trap":
                    n = len(line["hash_ids"])
                    line = {**line, "hash_ids": [0, *range(unique, unique + n - 1)]}
                    unique += n
                f.write(json.dumps(line) + "\n")
    return files


def command(case, port, workers, args):
    router, policy, _ = CASES[case]
    words = ROUTERS[router][0](port, workers, args)
    if words[0] and "--policy" in words:
        words[words.index("--policy") + 1] = policy
    elif words[0]:
        words += ["--policy", policy]
    if words[0] and router == "smg":
        words += ["--load-monitor-interval", str(max(1, round(SMG_POLL / args.time_scale)))]
    return words


def play(case, workload, file, args):
    """One router, from start to end; returns what was measured, or None where it is not installed."""
    log = case.replace(" ", "-")
    sim = Process(
        [args.ours, "sim", "--workers", str(args.workers), "--listen", "127.0.0.1:0", "--model", "mock", "--time-scale", str(args.time_scale),
         "--prefill-rate", str(args.prefill_rate), "--cache-pages", str(args.cache_tokens // 16),
         "--context-length", str(args.cache_tokens)],
        None, args, stdout=subprocess.PIPE,
    )
    router = None
    try:
        urls = [sim.p.stdout.readline().split()[0] for _ in range(args.workers)]
        port = free_port()
        words = command(case, port, [u.split("://")[1] for u in urls], args)
        if words[0] is None:
            return None
        router = Process(words, None, args, log=f"{log}.log")
        addr, end = f"127.0.0.1:{port}", time.time() + 60
        while (status := ask(addr, "chat")) != 200:
            if time.time() > end or router.p.poll() is not None:
                return {"case": case, "workload": workload, "cannot": str(status)}
            time.sleep(0.1)
        time.sleep(2)  # its event streams; all of the workers' reports
        out = os.path.join(args.scratch, "replay.json")
        words = [args.ours, "bench", "replay", "--url", f"http://{addr}", "--simulated", "--time-scale", str(args.time_scale), "--trace", file,
                 "--requests", "0", "--api", args.api, "--model", "mock", "--json", out]
        client = Process(words, None, args, log="client.log")
        if client.p.wait():
            with open(os.path.join(args.scratch, "client.log")) as f:
                print(f.read()[-2000:], file=sys.stderr)
        with open(out) as f:
            measured = json.load(f)[0]
        return {"case": case, "workload": workload, "measured": measured, "command": pathless(router.command), "replay": pathless(words)}
    finally:
        for p in (router, sim):
            if p:
                p.stop()


def simulate(workload, file, args):
    """The same requests and workers in the simulator: all policies that stand for a case, and the all-knowing router."""
    out = os.path.join(args.scratch, "policies.json")
    names = list(dict.fromkeys(CASES[c][2] for c in args.case)) + ["greedy"]
    words = [args.ours, "bench", "policies", "--trace", file, "--workers", str(args.workers), "--prefill-rate", str(args.prefill_rate),
             "--cache-tokens", str(args.cache_tokens), "--policy", ",".join(names), "--advise=false", "--json", out]
    subprocess.run(words, check=True, capture_output=True)
    with open(out) as f:
        report = json.load(f)
    return [{"case": f"simulated {r['policy']}", "workload": workload, "replay": pathless(words), "simulated": r} for r in report["results"]]


def row(records):
    """The medians over the rounds of one case."""
    live = [r["measured"] for r in records if "measured" in r]
    if live:
        mid = lambda get: statistics.median(get(m) for m in live)  # noqa: E731
        # By the answers' headers, which only Warmpath's have.
        shares = [sorted((n / sum(m["workers"].values()) for n in m["workers"].values()), reverse=True) for m in live]
        return [
            f"{100 * mid(lambda m: m['hit_tokens'] / m['prompt_tokens']):.1f}", *(f"{mid(lambda m: m['ttft'][k]) / 1e9:.3f}" for k in ("mean", "p50", "p99")),
            " ".join(f"{100 * statistics.median(s):.0f}" for s in itertools.zip_longest(*shares, fillvalue=0)) or "-",
            str(sum(m["errors"] for m in live)), f"{max(m['max_late'] for m in live) / 1e6:.0f}",
        ]
    sim = [r["simulated"] for r in records if "simulated" in r]
    if not sim:
        return ["cannot", records[0].get("cannot", "not installed"), *[""] * 5]
    s = sim[0]
    shares = sorted((w["requests"] / s["requests"] for w in s["workers"]), reverse=True)
    return [f"{100 * s['hits']:.1f}", *(f"{s['ttft'][k] / 1e9:.3f}" for k in ("mean", "p50", "p99")), " ".join(f"{100 * x:.0f}" for x in shares), "0", "0"]


def table(records, args):
    head = ["router", "hits %", "TTFT mean s", "p50", "p99", "share of each worker %", "errors", "late ms"]
    out = []
    for workload in args.workload:
        cases = list(dict.fromkeys(r["case"] for r in records if r["workload"] == workload))
        rows = [head] + [[c, *row([r for r in records if r["workload"] == workload and r["case"] == c])] for c in cases]
        width = [max(len(r[i]) for r in rows) for i in range(len(head))]
        out.append(f"{workload}: {args.requests} requests, {args.workers} workers of {args.cache_tokens} cached tokens, {args.prefill_rate} prefill tokens/s; "
                   f"{args.api}; medians of {args.rounds} rounds, times simulated (measured x {args.time_scale})")
        out += ["  ".join(cell.ljust(w) for cell, w in zip(r, width)).rstrip() for r in rows] + [""]
    return "\n".join(out) + "\n"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the warmpath binary; it is workers and client, too")
    p.add_argument("--trace", required=True, help="in Mooncake's format")
    p.add_argument("--peers", default=os.environ.get("WARMPATH_PEERS", os.path.join(CACHE, "peers")), help="where peers.sh installed them")
    p.add_argument("--results", required=True, help="folder for env.txt, cmd.txt, raw.jsonl and table.txt; it must not exist")
    p.add_argument("--case", nargs="+", choices=list(CASES), default=list(CASES))
    p.add_argument("--workload", nargs="+", choices=["conversation", "trap"], default=["conversation", "trap"])
    p.add_argument("--requests", type=int, default=1000, help="of the trace, from its beginning")
    p.add_argument("--workers", type=int, default=8)
    p.add_argument("--prefill-rate", type=int, default=7000, help="tokens a second; the conversation trace then keeps 8 workers busy")
    p.add_argument("--cache-tokens", type=int, default=1_000_000)
    p.add_argument("--time-scale", type=float, default=10, help="each real millisecond of this machine counts as so many")
    p.add_argument("--api", choices=["generate", "chat"], default="chat",
                   help="what the client speaks; the others take no token ids in completions")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--nice", type=int, default=-5, help="of all that is measured; below 0 it needs root")
    p.add_argument("--lock", help="a file whose lock (flock) is held during each replay, for several benchmarks that share a machine")
    args = p.parse_args()
    args.ours = os.path.abspath(args.ours)
    args.scratch = os.path.join(CACHE, "bench-live")
    os.makedirs(args.scratch, exist_ok=True)
    return args


def main():
    args = arguments()
    results = Results(args.results, args)

    def keep(record):
        results.keep(record)
        print(record["workload"], record["case"], *row([record]), file=sys.stderr)

    autogroup(str(args.nice))  # else niceness counts only within a session
    for workload, file in traces(args).items():
        for record in simulate(workload, file, args):
            keep(record)
        for i in range(args.rounds):
            for case in args.case if i % 2 == 0 else args.case[::-1]:
                with turn(args.lock):
                    if record := play(case, workload, file, args):
                        keep({"round": i, "load": os.getloadavg()[0], **record})
                    else:
                        print(f"{case} is left out: not installed", file=sys.stderr)
                        results.note("env.txt", f"left out {case}\n")
    autogroup("0")
    results.end()
    text = table(results.records, args)
    results.note("table.txt", text)
    print(text)


if __name__ == "__main__":
    main()
