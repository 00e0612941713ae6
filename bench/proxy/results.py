"""What the comparisons here keep of a run: the machine, the command, every measurement as it came, and the table."""
import contextlib
import json
import os
import platform
import subprocess
import sys
import time

from routers import which

HERE = os.path.dirname(os.path.abspath(__file__))


class Results:
    """The folder of one run, with more lines about what was run. Old ones are never written over; without a path nothing is kept."""

    def __init__(self, path, args, more=None):
        self.path, self.records = path, []
        if not path:
            return
        try:
            os.makedirs(path)
        except FileExistsError:
            sys.exit(f"{os.path.basename(sys.argv[0])}: {path} exists: results are never written over, give another folder")
        self.note("env.txt", environment(args, routers(args) if more is None else more))
        self.note("cmd.txt", pathless(sys.argv) + "\n")

    def note(self, name, text):
        if self.path:
            with open(os.path.join(self.path, name), "a") as f:
                f.write(text)

    def keep(self, record):
        self.records.append(record)
        self.note("raw.jsonl", json.dumps(record) + "\n")

    def end(self):
        """Says what the machine did meanwhile: a high load makes numbers doubtful."""
        self.note("env.txt", f"ended    {load()} load\n")


def load():
    return " ".join(f"{x:.2f}" for x in os.getloadavg())


def pathless(command):
    """A command as results keep it: they mean something elsewhere, the paths of this machine do not."""
    return " ".join(os.path.basename(word) if os.sep in word and "://" not in word else word for word in command)


def said(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return ((done.stdout or done.stderr).strip().splitlines() or ["-"])[0]
    except (OSError, TypeError, subprocess.TimeoutExpired):
        return "-"


def environment(args, more):
    model = "-"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "-")
    return "\n".join([
        f"date     {time.strftime('%Y-%m-%d %H:%M:%S %z')}",
        f"commit   {said('git', '-C', HERE, 'describe', '--tags', '--always', '--dirty')}",
        f"binary   {said(args.ours, '--version')}",
        f"cpu      {model}, {os.cpu_count()} cores",
        f"kernel   {platform.release()}",
        f"load     {load()}",
        *more,
    ]) + "\n"


def routers(args):
    """The versions of the other routers."""
    yield f"haproxy  {said(which('haproxy'), '-v')}"
    yield f"nginx    {said(which('nginx'), '-v')}"
    for venv, package in [("vllmr", "vllm-router"), ("sgr", "sglang-router"), ("smg", "smg")]:
        python = os.path.join(args.peers, "venv", venv, "bin", "python")
        version = said(python, "-c", f"import importlib.metadata as m; print(m.version('{package}'))")
        yield f"{package:<14} {version}"
