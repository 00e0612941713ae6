#!/usr/bin/env python3
"""Alternates `bin/bench index` and the peers' harness on workload files, in one hold of the machine.

The harness is a program that takes a workload file and the name of an index and prints lines of APPLY, FIND and MIXED (and of MEM with a
third argument). All raw output is kept in a folder with the machine's state and the command; medians are printed and kept beside it.

  compare.py --ours bin/warmpath --peers PATH/bench --results bench/results/DATE-HOST-index WORKLOAD.bin...
"""
import argparse
import hashlib
import os
import re
import statistics
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "proxy"))
from results import Results, load, pathless  # noqa: E402

# What is compared: our row, and where the harness says it.
ROWS = [
    ("apply, 1 writer", "M blocks/s", r"APPLY .*blockops/s=([\d.]+)M", 1),
    ("look-ups, 1 thread", "M/s", r"FIND .* 1T=(\d+)/s", 1e-6),
    ("look-ups, 2 threads", "M/s", r"FIND .* 2T=(\d+)/s", 1e-6),
    ("look-up, p50", "ns", r"FIND .*ns all p50=(\d+)", 1),
    ("look-up, p99", "ns", r"FIND .*ns all p50=\d+ p99=(\d+)", 1),
    ("of 500-2000 blocks, p50", "ns", r"FIND .*len500-2000 p50=(\d+)", 1),
    ("of 500-2000 blocks, p99", "ns", r"FIND .*len500-2000 p50=\d+ p99=(\d+)", 1),
    ("and 500 held, p50", "ns", r"FIND .*hit>=500 p50=(\d+)", 1),
    ("and 500 held, p99", "ns", r"FIND .*hit>=500 p50=\d+ p99=(\d+)", 1),
    ("mixed: apply, 1 writer", "M blocks/s", r"MIXED write blockops/s=([\d.]+)M", 1),
    ("mixed: look-ups, 1 thread", "M/s", r"MIXED .*reads=(\d+)/s", 1e-6),
    ("mixed: look-up, p50", "ns", r"MIXED .*reads=\d+/s p50=(\d+)", 1),
    ("mixed: look-up, p99", "ns", r"MIXED .*reads=\d+/s p50=\d+ p99=(\d+)", 1),
    ("mixed: look-up, p99.9", "ns", r"MIXED .*p999=(\d+)", 1),
    ("heap", "B/entry", r"MEM .*B/pair=([\d.]+)", 1),
    ("wrong answers", "", r"FIND bad=(\d+)/", 1),
]
# smg_into fills an array of 256 workers, and does not know which it filled: its wrong answers are those of smg_chain.
ARRAY, ARRAY_WORKERS, EXACT = "smg_into", 256, "smg_chain"


def workers_of(workload):
    with open(workload, "rb") as f:
        head = f.read(12)
    if head[:8] != b"KVWL0001":
        sys.exit(f"compare.py: {workload} is no workload: make it with `bin/bench index --generate ... --write FILE`")
    return struct.unpack("<I", head[8:])[0]


def run(command, folder, log, limit):
    """Runs a command in the workload's folder, keeps what it says without paths, and returns (exit code or None, output)."""
    begin = time.time()
    try:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit, text=True, errors="replace"
        )
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        code, text = None, (e.stdout or b"").decode(errors="replace")
    took = time.time() - begin
    ended = "was stopped" if code is None else f"ended with {code}"
    log.write(f"$ {pathless(command)}\n# load {load()}; {ended} after {took:.1f} s\n{text}\n")
    log.flush()
    return code, text


def ours(text, row):
    if row == "wrong answers":
        found = re.search(r"^wrong answers: ([\d,]+) of", text, re.M)
    else:
        found = re.search(r"^ *" + re.escape(row) + r"  +([\d,.]+)", text, re.M)
    return float(found.group(1).replace(",", "")) if found else None


def theirs(text, pattern, factor):
    found = re.search(pattern, text)
    return float(found.group(1)) * factor if found else None


def number(v):
    if v is None:
        return "-"
    return f"{v:,.0f}" if v >= 1000 or v == int(v) else f"{v:.3g}"


def digest(name):
    with open(name, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def compare(workload, args, log):
    """Alternates on one workload and returns {column: {row: [values]}} and notes."""
    folder, workload = os.path.split(os.path.abspath(workload))
    peers = args.peer
    if workers_of(os.path.join(folder, workload)) > ARRAY_WORKERS:
        peers = list(dict.fromkeys(EXACT if p == ARRAY else p for p in peers))
    columns = {"ours": {}, **{p: {} for p in peers}}
    notes = []

    def record(column, row, v):
        if v is not None:
            columns[column].setdefault(row, []).append(v)

    def peer(name, *more):
        code, text = run([args.peers, workload, name, *more], folder, log, args.limit)
        if code != 0:
            last = text.strip().splitlines()[-1:] or ["nothing said"]
            notes.append(f"{name} {' '.join(more)}: " + ("stopped" if code is None else f"exit code {code}") + f": {last[0][:160]}")
        return text

    for i in range(args.rounds):
        print(f"{workload}: round {i + 1} of {args.rounds}", file=sys.stderr)
        code, text = run([args.bench, "index", "--workload", workload, "--rounds", "1"], folder, log, args.limit)
        if code != 0:
            notes.append(f"ours: exit code {code}: {text.strip().splitlines()[-1]}")
        for row, _, _, _ in ROWS:
            record("ours", row, ours(text, row))
        for name in peers:
            text = peer(name)
            for row, _, pattern, factor in ROWS:
                if not (name == ARRAY and row == "wrong answers"):
                    record(name, row, theirs(text, pattern, factor))
    for name in peers:  # once: these do not vary
        text = peer(name, "mem")
        for row, _, pattern, factor in ROWS:
            record(name, row, theirs(text, pattern, factor))
        if name == ARRAY:
            record(name, "wrong answers", theirs(peer(EXACT), ROWS[-1][2], 1))
    return columns, notes


def table(workload, columns, notes):
    names = list(columns)
    lines = [f"{os.path.basename(workload)}: medians; in brackets, ours / theirs"]
    lines.append(f"{'':>28}  {'':<10}" + "".join(f"{n:>22}" for n in names))
    for row, unit, _, _ in ROWS:
        mid = {n: statistics.median(v[row]) for n, v in columns.items() if v.get(row)}
        cells = []
        for n in names:
            ratio = f" [{mid['ours'] / mid[n]:.2f}]" if n != "ours" and unit and mid.get(n) and "ours" in mid else ""
            cells.append(f"{number(mid.get(n)) + ratio:>22}")
        lines.append(f"{row:>28}  {unit:<10}" + "".join(cells))
    return "\n".join(lines + notes) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, help="the warmpath binary")
    p.add_argument("--bench", default="bin/bench", help="the benchmark program (make build-bench)")
    p.add_argument("--peers", required=True, help="the bench program of the peers' harness")
    p.add_argument("--peer", nargs="+", default=["smg_into", "dyn_crtc"], help="names of its indexes (default: smg_into dyn_crtc)")
    p.add_argument("--results", required=True, help="folder for env.txt, cmd.txt, raw.txt and table.txt; it must not exist")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--limit", type=float, default=600, help="seconds after which a run is stopped")
    p.add_argument("workload", nargs="+")
    args = p.parse_args()
    args.ours, args.bench, args.peers = (os.path.abspath(p) for p in (args.ours, args.bench, args.peers))
    results = Results(args.results, args, (f"sha256   {digest(w)} {os.path.basename(w)}" for w in args.workload))
    with open(os.path.join(args.results, "raw.txt"), "w") as log:
        for workload in args.workload:
            text = table(workload, *compare(workload, args, log))
            results.note("table.txt", text + "\n")
            print(text)
    results.end()


if __name__ == "__main__":
    main()
