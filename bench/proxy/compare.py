#!/usr/bin/env python3
"""Measures Warmpath beside other routers, and beside none, in one run.

All routers stand before the same mock workers, on a core of their own; workers and load have the others. Each round measures every
scenario with every router, in turn and then in the opposite turn, so that a noisy machine treats all alike. Raw results, the machine's
state and the commands are kept; medians, and medians of the ratios within a round, are printed.

  bench/proxy/compare.py --within 5                                      Warmpath and no router
  bench/proxy/peers.sh                                                   once, for the others
  bench/proxy/compare.py --results bench/results/DATE-HOST-proxy

What is not installed is left out, and said. What a router cannot do is marked "-": nothing is sent another way.
"""
import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from results import Results, pathless
from routers import COMMON, ROUTERS, free_port, raise_files
from table import memory_table, table

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("WARMPATH_CACHE", os.path.expanduser("~/.cache/warmpath"))
PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "text": "/generate", "ids": "/generate"}
WORKERS = 4
PAGE = 16  # tokens: small enough that 300 bytes have pages

# Scenario: flags of the load, connections of the closed loop (none: only the open loop), requests a second of the open loop.
SCENARIOS = {
    "chat-300": (["--api", "chat", "--size", "300"], 64, 500),
    "ids-300": (["--api", "ids", "--size", "300"], 64, 500),
    "text-300": (["--api", "text", "--size", "300"], 64, 500),
    "completions-300": (["--api", "completions", "--size", "300"], 64, 500),
    "chat-8k": (["--api", "chat", "--size", "8192"], 64, 500),
    "ids-8k": (["--api", "ids", "--size", "8192"], 64, 500),
    "chat-64k": (["--api", "chat", "--size", "65536"], 32, 100),
    "ids-64k": (["--api", "ids", "--size", "65536"], 32, 100),
    "chat-turns": (["--api", "chat", "--size", "16384", "--turns", "8"], 64, 200),
    "ids-turns": (["--api", "ids", "--size", "16384", "--turns", "8"], 64, 200),
    "chat-stream": (["--api", "chat", "--size", "300", "--stream", "--tokens", "64"], None, 50),
    "ids-stream": (["--api", "ids", "--size", "300", "--stream", "--tokens", "64"], None, 50),
    "chat-8m": (["--api", "chat", "--size", "8388608", "--warm", "200ms"], 4, 4),
    "ids-8m": (["--api", "ids", "--size", "8388608", "--warm", "200ms"], 4, 4),
}
GAP = "2ms"  # between two events of a stream
USUAL = ["chat-300", "ids-300", "chat-8k", "ids-8k", "chat-64k", "ids-64k", "chat-turns", "ids-turns", "chat-stream", "ids-stream", "chat-8m", "ids-8m"]


class Process:
    """A child on given cores, at the run's niceness."""

    def __init__(self, command, cores, args, log=None, stdout=None):
        self.command = command

        def prepare():
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, args.nice)
            if cores:
                os.sched_setaffinity(0, cores)

        out = open(os.path.join(args.scratch, log), "w") if log else stdout
        self.p = subprocess.Popen(command, stdout=stdout or out, stderr=out, preexec_fn=prepare, text=True)

    def threads(self):
        pids, all_threads = [self.p.pid], []
        while pids:
            pid = pids.pop()
            with contextlib.suppress(OSError):
                for tid in os.listdir(f"/proc/{pid}/task"):
                    all_threads.append(int(tid))
                    with open(f"/proc/{pid}/task/{tid}/children") as f:
                        pids += [int(c) for c in f.read().split()]
        return all_threads

    def realtime(self, on):
        policy, param = (os.SCHED_RR, os.sched_param(5)) if on else (os.SCHED_OTHER, os.sched_param(0))
        for tid in self.threads():
            with contextlib.suppress(OSError):
                os.sched_setscheduler(tid, policy, param)

    def stop(self):
        self.p.terminate()
        try:
            self.p.wait(10)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()


def ask(addr, api):
    """Sends one small prompt; returns the status, or what went wrong."""
    prompt = {
        "chat": {"model": "mock", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2},
        "completions": {"model": "mock", "prompt": "hello", "max_tokens": 2},
        "text": {"text": "hello", "sampling_params": {"max_new_tokens": 2}},
        "ids": {"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 2}},
    }[api]
    request = urllib.request.Request(
        f"http://{addr}{PATHS[api]}", json.dumps(prompt).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError as e:
        return str(e)


class Machine:
    """Workers, routers and load on their cores."""

    def __init__(self, args):
        self.args = args
        cores = sorted(os.sched_getaffinity(0))
        self.router_cores, self.load_cores = ({cores[0]}, set(cores[1:])) if len(cores) > 1 else (None, None)
        self.workers, self.mocks, self.routers = {}, [], {}
        self.start_workers()

    def start_workers(self):
        """Starts the workers, in place of those that there are."""
        args = self.args
        for mock in self.mocks:
            mock.stop()
        self.mocks = []
        for events in (False, True):
            command = [args.bench, "proxy", "mock", "--listen", "127.0.0.1:0", "--workers", str(WORKERS), "--page-size", str(PAGE)]
            command += ["--events", "--tokenize"] if events else []
            mock = Process(command, self.load_cores, args, stdout=subprocess.PIPE)
            line = mock.p.stdout.readline()
            if not line:
                sys.exit("compare.py: the mock workers do not start")
            self.mocks.append(mock)
            self.workers[events] = json.loads(line)["workers"]

    def start(self, name):
        """Starts a router; returns its address and process, or None where it is not installed."""
        make, events = ROUTERS[name]
        if make is None:
            return ",".join(self.workers[events]), None
        port = free_port()
        command = make(port, self.workers[events], self.args)
        if command[0] is None:
            return None
        p = Process(command, self.router_cores, self.args, log=f"{name}.log")
        addr, end = f"127.0.0.1:{port}", time.time() + 60
        while (status := ask(addr, "chat")) != 200:
            if time.time() > end or p.p.poll() is not None:
                p.stop()
                with open(os.path.join(self.args.scratch, f"{name}.log")) as f:
                    print(f"{name} does not answer ({status}):\n{f.read()[-800:]}", file=sys.stderr)
                return None
            time.sleep(0.05)
        time.sleep(1)  # its caches, its event streams
        return addr, p

    def pace(self, gap):
        for workers in self.workers.values():
            urllib.request.urlopen(f"http://{workers[0]}/bench/pace?gap={gap}", timeout=10).read()

    def flush(self):
        """Empties the workers' caches, so that what one router has seen is no other's gain."""
        for workers in self.workers.values():
            for w in workers:
                urllib.request.urlopen(f"http://{w}/flush_cache", timeout=10).read()
        time.sleep(0.2)

    def load(self, addr, process, flags):
        """Runs the load; returns what it measured."""
        command = [self.args.bench, "proxy", "--url", addr, "--json", "-", *flags]
        if process:
            command += ["--pid", str(process.p.pid)]
        fixed = "--rate" in flags and self.args.realtime
        involved = [p for p in [process, *self.mocks] if p]
        child = Process(command, self.load_cores, self.args, log="load.log", stdout=subprocess.PIPE)
        if fixed:
            for p in [*involved, child]:
                p.realtime(True)
        try:
            text, _ = child.p.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            child.p.kill()
            return command, None, "timeout"
        finally:
            if fixed:
                for p in involved:
                    p.realtime(False)
        try:
            return command, json.loads(text), None
        except ValueError:
            with open(os.path.join(self.args.scratch, "load.log")) as f:
                return command, None, f.read()[-300:]

    def close(self):
        for p in [*(r[1] for r in self.routers.values()), *self.mocks]:
            if p:
                p.stop()


@contextlib.contextmanager
def turn(path):
    """Holds a lock while something is measured, so that several measurements on one machine take turns."""
    if not path:
        yield
        return
    with open(path, "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


OVERHEAD = 0.55  # seconds between two measurements: a process for the load, caches to be emptied


def fit(args):
    """Sets the time of a measurement so that all of them together take args.within minutes."""
    modes = sum(bool(SCENARIOS[s][1] and not args.open) + bool(SCENARIOS[s][2]) for s in args.scenario)
    memory = 2 * 14 * (len(args.router) - 1) if args.memory else 0
    each = (60 * args.within - 3 * len(args.router) - memory) / (modes * len(args.router) * args.rounds) - OVERHEAD
    warm = min(0.3, each / 4)
    if each - warm < 0.3:
        sys.exit(f"compare.py: {each - warm:.2f} s for each measurement are too little: give more minutes, or fewer rounds, scenarios or routers")
    args.warm, args.time = f"{warm * 1000:.0f}ms", f"{(each - warm) * 1000:.0f}ms"


def autogroup(nice):
    with contextlib.suppress(OSError), open("/proc/self/autogroup", "w") as f:
        f.write(nice)


def compare(machine, args, keep):
    for i in range(args.rounds):
        for scenario in args.scenario:
            flags, connections, rate = SCENARIOS[scenario]
            order = args.router if i % 2 == 0 else args.router[::-1]
            modes = [("closed", ["--connections", str(connections)])] if connections and not args.open else []
            modes += [("open", ["--connections", "512", "--rate", str(rate)])] if rate else []
            with turn(args.lock):
                for mode, more in modes:
                    machine.pace(GAP if "--stream" in flags else "0s")
                    for name in order:
                        if name in machine.routers:
                            one(machine, args, keep, i, scenario, mode, name, [*flags, *more])


def one(machine, args, keep, i, scenario, mode, name, flags):
    addr, process = machine.routers[name]
    record = {"round": i, "scenario": scenario, "mode": mode, "router": name, "at": round(time.time(), 3)}
    if (status := ask(addr.split(",")[0], flags[1])) != 200:
        keep({**record, "cannot": status})
        print(f"{scenario} {mode} {name}: cannot ({status})", file=sys.stderr)
        return
    machine.flush()
    seed = str(1000 * i + 1 + list(SCENARIOS).index(scenario) * 10 + ("open" == mode))
    flags = [*flags, "--time", args.time, "--seed", seed] + ([] if "--warm" in flags else ["--warm", args.warm])
    command, measured, failed = machine.load(addr, process, flags)
    keep({**record, "command": pathless(command), "failed": failed, "measured": measured})
    if measured:
        print(f"round {i + 1} of {args.rounds}: {scenario} {mode} {name}: {measured['rate']:.0f}/s "
              f"{measured['cpu_us']:.1f} us CPU p50 {measured['latency_us']['p50'] / 1e3:.3f} ms "
              f"{sum(measured['errors'].values())} errors", file=sys.stderr)
    else:
        print(f"{scenario} {mode} {name}: FAILED: {failed}", file=sys.stderr)


def memory(machine, args, keep):
    """Long prompts of which no two are alike, to a router that was just started."""
    for api in ("ids", "text"):
        for name in args.router:
            if ROUTERS[name][0] is None or name not in machine.routers:
                continue
            with turn(args.lock):
                # New workers: a router that starts asks for the events that they keep for replay, 60 MB each after the router before.
                machine.start_workers()
                started = machine.start(name)
                if started is None:
                    continue
                addr, process = started
                record = {"scenario": f"memory-{api}", "mode": "closed", "router": name, "at": round(time.time(), 3)}
                # A router that does not know /generate gets the same text as a completion.
                for kind in ([api] if api == "ids" else ["text", "completions"]):
                    if ask(addr, kind) == 200:
                        flags = ["--api", kind, "--size", "65536", "--connections", "32", "--warm", "0s", "--time", "9s"]
                        machine.flush()
                        command, measured, failed = machine.load(addr, process, flags)
                        keep({**record, "api": kind, "command": pathless(command), "failed": failed, "measured": measured})
                        print(f"memory {kind} {name}: " + (f"peak {measured['router']['peak_rss_bytes'] / 2**20:.0f} MiB" if measured else failed),
                              file=sys.stderr)
                        break
                else:
                    keep({**record, "cannot": "status"})
                process.stop()


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", default="bin/warmpath", help="the warmpath binary (make build)")
    p.add_argument("--bench", default="bin/bench", help="the benchmark program: workers and load (make build-bench)")
    p.add_argument("--base", help="another warmpath binary, for the routers base and base-approx")
    p.add_argument("--peers", default=os.environ.get("WARMPATH_PEERS", os.path.join(CACHE, "peers")), help="where peers.sh installed them")
    p.add_argument("--results", help="folder for env.txt, cmd.txt, raw.jsonl and table.txt; it must not exist (default: nothing is kept)")
    p.add_argument("--router", nargs="+", choices=list(ROUTERS), help=f"default: {' '.join(COMMON)}, and base if given")
    p.add_argument("--scenario", nargs="*", choices=list(SCENARIOS), default=USUAL, help=f"default: {' '.join(USUAL)}")
    p.add_argument("--memory", action="store_true", help="also 9 s of unique 64 KiB prompts to each router, freshly started")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--time", default="3s", help="of each measurement, after --warm")
    p.add_argument("--warm", default="500ms")
    p.add_argument("--within", type=float, metavar="MINUTES", help="all of it takes about so long: sets --time and --warm")
    p.add_argument("--nice", type=int, default=-10, help="of all that is measured; below 0 it needs root")
    p.add_argument("--open", action="store_true", help="only the open loops, for latencies")
    p.add_argument("--realtime", action="store_true",
                   help="open loops at real-time priority, so that other work on the machine counts less; needs root")
    p.add_argument("--lock", help="a file whose lock (flock) is held during each scenario, for several benchmarks that share a machine")
    args = p.parse_args()
    args.ours, args.bench = os.path.abspath(args.ours), os.path.abspath(args.bench)
    args.base = args.base and os.path.abspath(args.base)
    args.router = args.router or COMMON + (["base", "base-approx"] if args.base else [])
    if args.within:
        fit(args)
    args.scratch = os.path.join(CACHE, "bench-proxy")
    os.makedirs(args.scratch, exist_ok=True)
    return args


def main():
    args = arguments()
    results = Results(args.results, args)
    autogroup("-10")  # else niceness counts only within a session
    raise_files()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("compare.py: ended by a signal"))  # after which routers are ended, too
    machine = Machine(args)
    try:
        for name in args.router:
            if started := machine.start(name):
                machine.routers[name] = started
            else:
                print(f"{name} is left out", file=sys.stderr)
                results.note("env.txt", f"left out {name}\n")
        compare(machine, args, results.keep)
        if args.memory:
            for name, (_, process) in machine.routers.items():
                if process:
                    process.stop()
            memory(machine, args, results.keep)
    finally:
        machine.close()
        autogroup("0")
        results.end()
    text = table(results.records) + (memory_table(results.records) if args.memory else "")
    results.note("table.txt", text)
    print(text)


if __name__ == "__main__":
    main()
