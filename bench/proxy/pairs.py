#!/usr/bin/env python3
"""Measures Warmpath beside sglang-router before the same simulated prefill and decode workers.

Each router stands before workers of its own that start empty. First a trace is replayed at its own times: throughput and time to the first
token. Then a prefill worker is killed while clients ask without a pause, and comes back: errors, and how long clients got no answer.

  bench/proxy/peers.sh                                                   once
  bench/proxy/pairs.py --ours bin/warmpath --trace conversation_trace.jsonl --results bench/results/DATE-HOST-pd

What is not installed is left out, and said.
"""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

from results import Results
from routers import free_port

CACHE = os.environ.get("WARMPATH_CACHE", os.path.expanduser("~/.cache/warmpath"))


def warmpath(port, prefill, decode, args):
    command = [args.ours, "serve", "--listen", f"127.0.0.1:{port}", "--log-level", "warn"]
    for url, bootstrap in prefill:
        command += ["--prefill", f"{url},{bootstrap}"]
    for url in decode:
        command += ["--decode", url]
    return command


def sglang(port, prefill, decode, args):
    path = os.path.join(args.peers, "venv", "sgr", "bin", "sglang-router")
    if not os.access(path, os.X_OK):
        return None
    command = [path, "launch", "--host", "127.0.0.1", "--port", str(port), "--pd-disaggregation", "--policy", "cache_aware"]
    for url, bootstrap in prefill:
        command += ["--prefill", url, str(bootstrap)]
    for url in decode:
        command += ["--decode", url]
    return command + [
        "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1", "--log-level", "warn",
    ]


ROUTERS = {"warmpath": warmpath, "sglang-router": sglang}


class Worker:
    """One simulated worker: a process of its own, which can be killed and started again on the same ports."""

    def __init__(self, mode, scale, args):
        self.bootstrap = free_port() if mode == "prefill" else 0
        self.command = [
            args.ours, "sim", "--mode", mode, "--listen", f"127.0.0.1:{free_port()}", "--bootstrap-port", str(self.bootstrap),
            "--time-scale", str(scale),
        ]
        if scale == 1:  # the part in which a worker is killed
            self.command += ["--bootstrap-timeout", args.engine_timeout, "--waiting-timeout", args.engine_timeout]
        self.start()

    def start(self):
        self.p = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        line = self.p.stdout.readline()
        if not line:
            sys.exit("pairs.py: a simulated worker does not start")
        self.url = line.split()[0]

    def kill(self):
        self.p.send_signal(signal.SIGKILL)
        self.p.wait()


class Cluster:
    """Workers and a router in front of them."""

    def __init__(self, name, scale, args):
        self.prefill = [Worker("prefill", scale, args) for _ in range(args.prefill)]
        self.decode = [Worker("decode", scale, args) for _ in range(args.decode)]
        port = free_port()
        self.base, self.router = f"http://127.0.0.1:{port}", None
        command = ROUTERS[name](port, [(w.url, w.bootstrap) for w in self.prefill], [w.url for w in self.decode], args)
        if command is None:
            return
        log = open(os.path.join(args.scratch, f"pairs-{name}.log"), "w")
        self.router = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.time() + 60
        while (status := ask(self.base, "hello", 2)[0]) != 200:
            if time.time() > end or self.router.poll() is not None:
                sys.exit(f"pairs.py: {name} does not serve: {status}; see {log.name}")
            time.sleep(0.1)

    def stop(self):
        for p in [self.router, *(w.p for w in self.prefill + self.decode)]:
            if p is None:
                continue
            p.terminate()
            try:
                p.wait(15)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()


def ask(base, text, tokens, timeout=120):
    """Sends one chat; returns the status, or what went wrong, and whether an answer was in it."""
    body = {"model": "simulated", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, "ignore_eos": True}
    request = urllib.request.Request(f"{base}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, "choices" in json.loads(answer.read())
    except urllib.error.HTTPError as e:
        return e.code, False
    except (OSError, ValueError) as e:
        return str(e), False


def replay(name, args):
    """Replays the trace; returns what the replay says, by its own JSON."""
    cluster = Cluster(name, args.time_scale, args)
    if cluster.router is None:
        return None
    out = os.path.join(args.scratch, f"pairs-{name}.json")
    with contextlib.suppress(FileNotFoundError):
        os.remove(out)
    command = [
        args.ours, "bench", "replay", "--url", cluster.base, "--simulated", "--api", "chat", "--model", "simulated", "--time-scale",
        str(args.time_scale), "--requests", str(args.requests), "--json", out,
    ]
    if args.trace:
        command += ["--trace", args.trace]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    finally:
        cluster.stop()
    if not os.path.exists(out):  # requests that failed are a result, and an exit status, too
        sys.exit(f"pairs.py: {' '.join(command)}: {done.stderr.strip()}")
    with open(out) as f:
        return {"table": done.stdout, "json": json.load(f)}


def kill(name, args):
    """Kills a prefill worker under load; returns what clients saw."""
    cluster = Cluster(name, 1, args)
    if cluster.router is None:
        return None
    seen, lock, over = [], threading.Lock(), threading.Event()

    def client(n):
        i = 0
        while not over.is_set():
            i += 1
            began = time.time()
            status, good = ask(cluster.base, f"client {n} asks question {i} about the weather", 8)
            with lock:
                seen.append((began, time.time(), status, good))
            if not good:
                time.sleep(0.05)  # a client that was refused does not hammer

    clients = [threading.Thread(target=client, args=(n,)) for n in range(args.clients)]
    for c in clients:
        c.start()
    time.sleep(args.before)
    killed = time.time()
    cluster.prefill[0].kill()
    time.sleep(args.away)
    cluster.prefill[0].start()
    time.sleep(args.after)
    over.set()
    for c in clients:
        c.join()
    cluster.stop()
    return summary(seen, killed)


def summary(seen, killed):
    """What happened from the kill on."""
    during = [s for s in seen if s[1] >= killed]
    good = sorted(s[1] for s in during if s[3])
    begun_after = sorted(s[1] for s in during if s[3] and s[0] >= killed)
    gaps = [b - a for a, b in zip([killed, *good], good)]
    statuses = {}
    for s in during:
        if not s[3]:
            statuses[str(s[2])] = statuses.get(str(s[2]), 0) + 1
    times = sorted(s[1] - s[0] for s in during)
    return {
        "requests": len(during),
        "errors": sum(statuses.values()),
        "statuses": statuses,
        "first_answer_s": round(good[0] - killed, 3) if good else None,
        "first_answer_to_a_new_request_s": round(begun_after[0] - killed, 3) if begun_after else None,
        "longest_gap_s": round(max(gaps), 3) if gaps else None,
        "slowest_request_s": round(times[-1], 3) if times else None,
        "over_1s": sum(t > 1 for t in times),
    }


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default="bin/warmpath")
    p.add_argument("--peers", default=os.environ.get("WARMPATH_PEERS", os.path.join(CACHE, "peers")), help="where peers.sh installed sglang-router")
    p.add_argument("--router", nargs="+", default=list(ROUTERS), choices=list(ROUTERS))
    p.add_argument("--prefill", type=int, default=4)
    p.add_argument("--decode", type=int, default=4)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--trace", help="in Mooncake's format; without it a synthetic one")
    p.add_argument("--requests", type=int, default=1000)
    p.add_argument("--time-scale", type=float, default=5)
    p.add_argument("--engine-timeout", default="20s", help="of a leg without its partner, where a worker is killed; else SGLang's 5 min")
    p.add_argument("--clients", type=int, default=16, help="of the part in which a worker is killed")
    p.add_argument("--before", type=float, default=3, help="seconds until it is killed")
    p.add_argument("--away", type=float, default=5, help="seconds until it comes back")
    p.add_argument("--after", type=float, default=5, help="seconds to the end")
    p.add_argument("--results", help="a new folder for what was measured")
    args = p.parse_args()
    args.ours = os.path.abspath(args.ours)
    args.scratch = os.path.join(CACHE, "bench-pairs")
    os.makedirs(args.scratch, exist_ok=True)
    results = Results(args.results, args)
    for part, run in {"replay": replay, "kill": kill}.items():
        for n in range(args.rounds):
            for name in args.router if n % 2 == 0 else reversed(args.router):
                result = run(name, args)
                if result is None:
                    shown = f"{name} is not installed"
                else:
                    text = result.pop("table", None) or json.dumps(result)
                    shown = f"== {part}, round {n + 1}, {name}\n{text}"
                    results.keep({"part": part, "round": n + 1, "router": name, **result})
                print(shown, flush=True)
                results.note("table.txt", shown + "\n")
    results.end()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
