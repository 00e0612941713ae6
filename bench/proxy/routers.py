"""The routers that compare.py measures: how each is started."""
import os
import resource
import shutil
import socket


def which(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def urls(workers):
    return [f"http://{w}" for w in workers]


def raise_files():
    """Lets routers open as many files as the machine allows, or root may ask for."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in (max(hard, 100_000), hard):
        try:
            return resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        except (ValueError, OSError):
            continue


def connections():
    """How many connections a router may have: it needs two files for each."""
    return min(60_000, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200) // 2)


def haproxy(port, workers, args):
    servers = "".join(f"  server w{i} {w}\n" for i, w in enumerate(workers))
    config = os.path.join(args.scratch, "haproxy.cfg")
    with open(config, "w") as f:
        f.write(
            f"global\n  nbthread 1\n  maxconn {connections()}\ndefaults\n  mode http\n"
            "  timeout connect 5s\n  timeout client 300s\n  timeout server 300s\n  option http-keep-alive\n  http-reuse always\n"
            "  option http-no-delay\n"  # else events of streams wait
            f"frontend f\n  bind 127.0.0.1:{port}\n  default_backend b\nbackend b\n  balance roundrobin\n{servers}"
        )
    return [which("haproxy"), "-db", "-f", config]


def nginx(port, workers, args):
    servers = "".join(f"    server {w};\n" for w in workers)
    config = os.path.join(args.scratch, "nginx.conf")
    temps = "".join(f"  {k}_temp_path {args.scratch}/nginx-{k};\n" for k in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    with open(config, "w") as f:
        f.write(
            # Else its worker is somebody who may not write long bodies to the folder.
            ("user root;\n" if os.geteuid() == 0 else "") + f"daemon off;\nworker_processes 1;\nerror_log {args.scratch}/nginx.err;\npid {args.scratch}/nginx.pid;\n"
            f"events {{ worker_connections {2 * connections()}; }}\n"
            "http {\n  access_log off;\n  client_body_buffer_size 1m;\n  client_max_body_size 64m;\n"
            f"{temps}  keepalive_requests 1000000000;\n  keepalive_timeout 300s;\n  upstream u {{\n{servers}    keepalive 256;\n"
            "    keepalive_requests 1000000000;\n  }\n"
            f"  server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    location / {{\n      proxy_pass http://u;\n      proxy_http_version 1.1;\n"
            '      proxy_set_header Connection "";\n      proxy_buffering off;\n    }\n  }\n}\n'  # buffered, events of streams wait
        )
    return [which("nginx"), "-c", config]


def rust(venv, program, level, more=()):
    """A router from PyPI. Each logs two lines a request unless told not to."""

    def command(port, workers, args):
        path = os.path.join(args.peers, "venv", venv, "bin", program[0])
        if not os.access(path, os.X_OK):
            return [None]
        return [
            path, *program[1:], "--host", "127.0.0.1", "--port", str(port), "--worker-urls", *urls(workers), "--policy", "cache_aware",
            "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port()), "--worker-startup-check-interval", "1",
            "--log-level", level, *more,
        ]

    return command


def ours(binary, *more):
    def command(port, workers, args):
        path = getattr(args, binary)
        if not path:
            return [None]
        flags = [x for u in urls(workers) for x in ("--worker", u)]
        return [path, "serve", "--listen", f"127.0.0.1:{port}", "--log-level", "warn", *flags, *more]

    return command


# Router: its command, and whether its workers publish events. warmpath without events routes by what it sent and what answers report.
ROUTERS = {
    "direct": (None, False),
    "direct-events": (None, True),
    "haproxy": (haproxy, False),
    "nginx": (nginx, False),
    "vllm-router": (rust("vllmr", ["vllm-router"], "warning"), False),
    "sglang-router": (rust("sgr", ["sglang-router", "launch"], "warn"), False),
    "smg": (rust("smg", ["smg", "launch"], "warn", ["--disable-tokenizer-autoload"]), False),
    "warmpath": (ours("ours"), True),
    "warmpath-approx": (ours("ours"), False),
    "warmpath-rr": (ours("ours", "--policy", "round-robin"), False),
    "base": (ours("base"), True),
    "base-approx": (ours("base"), False),
}
COMMON = [r for r in ROUTERS if r not in ("base", "base-approx", "warmpath-rr")]
