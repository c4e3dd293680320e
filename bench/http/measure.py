"""Headgate, HAProxy and nginx in front of the same provider, in turn: what each costs.

Every round measures each proxy once, right after another, and ratios are taken within a round: a
machine that is busy or slow for a while is so for all of them. What counts is the median round.
Processor time is what the kernel gave the proxy's threads (/proc/PID/task/*/schedstat, in ns); it
does not grow with the time that others take from us.
"""
import contextlib
import glob
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

CONNECTIONS = 16  # Of the load generator, each with one request at a time.
STREAMS = 500
HELD_CALLS = 2000
HELD_BODY = 20 * 1024

HAPROXY_CONFIG = """
global
  nbthread 1
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  option http-keep-alive
  http-reuse always
frontend agents
  bind fd@{fd}
  default_backend provider
backend provider
  server one 127.0.0.1:{upstream}
"""

NGINX_CONFIG = """
daemon off;
master_process off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log stderr error;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_buffer_size 512k;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  keepalive_requests 1000000;
  upstream provider {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://provider;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""

HEADGATE_CONFIG = """
listen = "127.0.0.1:0"
call_log = "{dir}/calls.jsonl"
runtime_dir = "{dir}/run"
log_level = "warn"
[upstream.bench]
url = "http://127.0.0.1:{upstream}"
profile = "anthropic"
[pool.bench]
upstream = "bench"
c_burst = 1_000_000_000
r_tok = 1_000_000_000
k_inflight = 1_000_000_000
c_req = {c_req}
r_qps = {r_qps}
"""
# As large as a pool can be told: every call asks, is admitted at once and settles.
WIDE = {"c_req": 1_000_000, "r_qps": 8000}
# One call passes, all others are held.
TIGHT = {"c_req": 1, "r_qps": 0.001}


class Proxy:
    """A running server of any kind: where it listens, and what it has used."""

    def __init__(self, name, process, port):
        self.name = name
        self.process = process
        self.port = port

    def cpu_ns(self):
        total = 0
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"):
            with open(path, encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        raise RuntimeError("no VmRSS")


class Bench:
    def __init__(self, build, stack, directory):
        self.build = build
        self.stack = stack
        self.directory = directory
        self.headgates = 0
        self.upstream = self.start("upstream", [self.program("http_upstream")], self.first_number)

    def program(self, name):
        folder = self.build if name == "headgate" else os.path.join(self.build, "bench")
        return os.path.join(folder, name)

    def start(self, name, command, find_port, **options):
        process = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, **options)
        self.stack.callback(end, process)
        return Proxy(name, process, find_port(process))

    @staticmethod
    def first_number(process):
        return int(process.stdout.readline())

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start_haproxy(self):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        config = self.write("haproxy.cfg", HAPROXY_CONFIG.format(fd=listener.fileno(),
                                                                 upstream=self.upstream.port))
        command = [find_program("haproxy"), "-db", "-q", "-f", config]
        proxy = self.start("haproxy", command, lambda process: port, pass_fds=[listener.fileno()])
        listener.close()
        return proxy

    def start_nginx(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        directory = os.path.join(self.directory, "nginx")
        os.makedirs(directory, exist_ok=True)
        config = self.write("nginx.conf", NGINX_CONFIG.format(dir=directory, port=port,
                                                              upstream=self.upstream.port))
        command = [find_program("nginx"), "-c", config, "-p", directory, "-e", "stderr"]
        proxy = self.start("nginx", command, lambda process: port)
        wait_for(lambda: can_connect(port), 10)
        return proxy

    def headgate_command(self, limits):
        self.headgates += 1
        directory = os.path.join(self.directory, f"headgate{self.headgates}")
        os.makedirs(directory)
        config = self.write(f"headgate{self.headgates}.toml",
                            HEADGATE_CONFIG.format(dir=directory, upstream=self.upstream.port,
                                                   **limits))
        return [self.program("headgate"), "serve", "--json", "--config", config]

    def start_headgate(self, limits):
        def find_port(process):
            return json.loads(process.stdout.readline())["port"]
        return self.start("headgate", self.headgate_command(limits), find_port)

    def load(self, *arguments):
        command = [self.program("http_load"), *map(str, arguments)]
        run = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(run.stdout)

    # ---- What is measured

    def cpu_us(self, proxy, requests, body, answer):
        """Processor time of the proxy for one request, in microseconds."""
        command = [self.program("http_load"), "closed", str(proxy.port), str(CONNECTIONS),
                   str(requests), str(body), answer]
        with subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as load:
            load.stdout.readline()
            before = proxy.cpu_ns()
            load.stdin.write("\n")
            load.stdin.flush()
            json.loads(load.stdout.readline())
            used = proxy.cpu_ns() - before
        return used / requests / 1000

    def start_ms(self):
        """From the program's start until it says where it listens, which it does then."""
        command = self.headgate_command(WIDE)
        begin = time.monotonic()
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            took = time.monotonic() - begin
            process.terminate()
        return took * 1000

    def held_kib(self):
        proxy = self.start_headgate(TIGHT)
        settled(proxy)
        before = proxy.resident_kib()
        command = [self.program("http_load"), "held", str(proxy.port), str(HELD_CALLS),
                   str(HELD_BODY)]
        with subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as load:
            body = json.loads(load.stdout.readline())["body_bytes"]
            settled(proxy)
            after = proxy.resident_kib()
            load.stdin.close()
        end(proxy.process)
        return before / 1024, (after - before) / HELD_CALLS - body / 1024


def find_program(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if path is None:
        raise SystemExit(f"bench: {name} is not installed; tools/setup bench does that")
    return path


def end(process):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("bench: a server did not come up")
        time.sleep(0.01)


def can_connect(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def settled(proxy):
    """Returns when the proxy's memory has stood still for a second."""
    still = 0
    last = -1
    while still < 5:
        time.sleep(0.2)
        now = proxy.resident_kib()
        still = still + 1 if now == last else 0
        last = now


class Results:
    """Named samples; what goes into the file is their median."""

    def __init__(self):
        self.samples = {}
        self.units = {}

    def add(self, name, unit, value):
        self.samples.setdefault(name, []).append(value)
        self.units[name] = unit

    def rows(self):
        for name, values in self.samples.items():
            yield {"name": name, "value": float(f"{statistics.median(values):.5g}"),
                   "unit": self.units[name]}

    def spread(self):
        for name, values in self.samples.items():
            yield {"name": name, "unit": self.units[name], "median": statistics.median(values),
                   "low": min(values), "high": max(values), "rounds": len(values)}


def measure_cpu(bench, proxies, results, rounds, label, requests, body, answer):
    for _ in range(rounds):
        used = {proxy.name: bench.cpu_us(proxy, requests, body, answer) for proxy in proxies}
        for name, value in used.items():
            results.add(f"proxy.cpu_us.{name}.{label}", "us", value)
        results.add(f"proxy.cpu_ratio_haproxy.{label}", "ratio", used["headgate"] / used["haproxy"])
        results.add(f"proxy.cpu_ratio_nginx.{label}", "ratio", used["headgate"] / used["nginx"])


def measure_added(bench, proxies, results, rounds):
    ports = [bench.upstream.port] + [proxy.port for proxy in proxies]
    for _ in range(rounds):
        answers = bench.load("serial", 800, 2048, "json", *ports)
        direct, *others = [answer["p50_us"] for answer in answers]
        added = {proxy.name: max(value - direct, 1) for proxy, value in zip(proxies, others)}
        for name, value in added.items():
            results.add(f"proxy.added_us.{name}.2k", "us", value)
        results.add("proxy.added_ratio_haproxy.2k", "ratio", added["headgate"] / added["haproxy"])


def measure_streams(bench, proxies, results, rounds):
    for _ in range(rounds):
        for proxy in [*proxies, bench.upstream]:
            late = bench.load("streams", proxy.port, STREAMS)
            if proxy.name == "headgate":
                results.add("stream.p99_late_ms", "ms", late["p99_us"] / 1000)
                results.add("stream.max_late_ms", "ms", late["max_us"] / 1000)
            else:
                results.add(f"stream.p99_late_ms.{proxy.name}", "ms", late["p99_us"] / 1000)


def measure(build, results, say):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-bench-"))
        bench = Bench(build, stack, directory)
        say("start")
        for _ in range(10):
            results.add("start.ms", "ms", bench.start_ms())
        say("memory")
        for _ in range(3):
            idle_mb, held_kib = bench.held_kib()
            results.add("mem.idle_mb", "MB", idle_mb * 1.048576)
            results.add("mem.held_kib", "KiB", held_kib)
        proxies = [bench.start_haproxy(), bench.start_headgate(WIDE), bench.start_nginx()]
        say("processor time, 2 KiB")
        measure_cpu(bench, proxies, results, 9, "2k", 2000, 2 * 1024, "json")
        say("processor time, 200 KiB")
        measure_cpu(bench, proxies, results, 9, "200k", 400, 200 * 1024, "json")
        say("processor time, an event stream")
        measure_cpu(bench, proxies, results, 5, "stream", 1000, 20 * 1024, "sse")
        say("time added")
        measure_added(bench, proxies, results, 7)
        say(f"{STREAMS} streams")
        measure_streams(bench, proxies[:2], results, 3)
