"""What a decision costs a Valkey server, as a pool fills up; and what a script that reads the whole
pool at each decision costs instead.

The server is one of its own, on a unix socket. Its own count of the time (INFO commandstats) is
read, so the client is not in the figures; rates are those of its processor time, through one
pipelined connection. Every round measures everything once, ratios are of one round, and medians
count: the machine may be busy.
"""
import os
import select
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

SIZES = (10, 500, 5000)  # Leases, and as many waiters.
SHIMS = 20
ROUNDS = 7
KEYS = ["hg1:{bench}:" + name for name in ("pool", "due", "order", "index")]
MANY = 1_000_000_000

# The yardstick: on each ask it reads two hashes whole (leases: id to tokens:started; waiters: id to
# charge:first_denied), splits every value, sums the first and looks for the stale in both; then the
# five constants, two levels and the lowest score; and writes back the levels.
SCAN = """#!lua
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local inflight, waiting, stale = 0, 0, 0
local leases = redis.call('HGETALL', KEYS[1])
for i = 1, #leases, 2 do
  local tokens, started = string.match(leases[i + 1], '^(%d+):(%d+)$')
  inflight = inflight + tokens
  if now - started > 300000000 then stale = stale + 1 end
end
local waiters = redis.call('HGETALL', KEYS[2])
local lowest
for i = 1, #waiters, 2 do
  local charge, denied = string.match(waiters[i + 1], '^(%d+):(%d+)$')
  waiting = waiting + charge
  if now - denied > 300000000 then stale = stale + 1 end
  local score = denied - math.min(charge, 200000) / 40000 * 1000000
  if not lowest or score < lowest then lowest = score end
end
local c = redis.call('HMGET', KEYS[3], 'c_burst', 'r_tok', 'k_inflight', 'c_req', 'r_qps')
local levels = redis.call('HMGET', KEYS[4], 'tokens', 'requests')
local tokens = math.min(levels[1] + c[2] / 1000, c[1] + 0)
local requests = math.min(levels[2] + c[5] / 1000, c[4] + 0)
redis.call('HSET', KEYS[4], 'tokens', string.format('%.0f', tokens), 'requests',
           string.format('%.0f', requests))
return {inflight, waiting, stale, string.format('%.0f', lowest or 0)}
"""
EMPTY = "#!lua\nreturn 1\n"


class Server:
    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="headgate-bench-")
        path = os.path.join(self.directory, "socket")
        self.process = subprocess.Popen(
            ["valkey-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir",
             self.directory],
            stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                self.socket.close()
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise SystemExit("bench: valkey-server did not start") from None
                time.sleep(0.02)
        self.reader = self.socket.makefile("rb")
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/gate/gate.lua")
        with open(source, "rb") as file:
            self.script = self.load(b"#!lua\n" + file.read())
        self.empty = self.load(EMPTY)
        self.scan = self.load(SCAN)

    def close(self):
        self.reader.close()
        self.socket.close()
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def load(self, text):
        return self.command("SCRIPT", "LOAD", text)

    def command(self, *words):
        self.socket.sendall(encode(*words))
        answer = self.read()
        if isinstance(answer, Exception):
            raise SystemExit(f"bench: {words[0]}: {answer}")
        return answer

    def read(self):
        line = self.reader.readline()[:-2]
        kind, rest = line[:1], line[1:].decode()
        if kind == b"-":
            return Exception(rest)
        if kind == b"$":
            return None if rest == "-1" else self.reader.read(int(rest) + 2)[:-2].decode("latin1")
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def pipeline(self, commands):
        """Sends all at once and drops the answers."""
        end = b"the pipeline ends here"
        data = memoryview(b"".join(commands) + encode("ECHO", end))
        sent, tail = 0, b""
        self.socket.setblocking(False)
        while end not in tail:
            writing = [self.socket] if sent < len(data) else []
            readable, writable, _ = select.select([self.socket], writing, [], 60)
            if writable:
                sent += self.socket.send(data[sent:sent + 65536])
            if readable:
                tail = (tail + self.socket.recv(1 << 20))[-100:]
        self.socket.setblocking(True)

    def processor_s(self, commands):
        """What the kernel gave the server's main thread for these commands."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/schedstat"

        def given():
            with open(path, encoding="ascii") as file:
                return int(file.read().split()[0])
        before = given()
        self.pipeline(commands)
        return (given() - before) / 1e9

    def spent_us(self, commands):
        """The server's own time for these commands, all EVALSHA."""
        self.command("CONFIG", "RESETSTAT")
        self.pipeline(commands)
        for line in self.command("INFO", "commandstats").splitlines():
            if line.startswith("cmdstat_evalsha:"):
                fields = dict(field.split("=") for field in line.split(":")[1].split(","))
                return int(fields["usec"])
        raise SystemExit("bench: the server counted no EVALSHA")


def encode(*words):
    out = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        out.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(out)


def call(digest, *arguments):
    return encode("EVALSHA", digest, len(KEYS), *KEYS, *arguments)


def acquire(digest, number):
    shim = f"shim{number % SHIMS}"
    return call(digest, "acquire", "", f"{shim}-1.{number}.1", shim, f"bench/harness{number % 3}",
                1000, 1000, 0, 3_600_000_000, 0, 0, 600_000_000, 1_000_000, 0)


def settle(digest, number):
    return call(digest, "settle", "", f"shim{number % SHIMS}-1.{number}.1", "usage", 1000, 0, 100,
                4000, 0, 0)


def create(server, k_inflight):
    server.command("FLUSHALL")
    server.socket.sendall(call(server.script, "create", "", MANY, MANY, k_inflight, 1_000_000,
                               8_000_000_000, "", "", 0, 15_000_000, 4_890_000, 1_000_000, 0,
                               0, 0, 0, 0, 0, "", "", 0, "bench"))
    if server.read()[0] != "ok":
        raise SystemExit("bench: the pool could not be created")


def acquire_us(server, size):
    """Of an acquire: half are newcomers that queue, half are heads that are admitted."""
    create(server, size * 1000)
    server.pipeline([acquire(server.script, number) for number in range(2 * size)])
    first, newest, spent, asked = 0, 2 * size, 0, 0
    batch = max(5, min(size // 10, 50))
    while asked < 2000:
        newcomers = [acquire(server.script, newest + i) for i in range(batch)]
        spent += server.spent_us(newcomers)
        server.pipeline([settle(server.script, first + i) for i in range(batch)])
        spent += server.spent_us([acquire(server.script, first + size + i) for i in range(batch)])
        first, newest, asked = first + batch, newest + batch, asked + 2 * batch
    server.socket.sendall(call(server.script, "view", ""))
    view = server.read()
    if (len(view[11]), len(view[12])) != (size, size):
        raise SystemExit(f"bench: {len(view[11])} leases, {len(view[12])} waiters; expected {size}")
    return spent / asked


def scan_us(server, size):
    server.command("FLUSHALL")
    now = int(time.time() * 1_000_000)
    for key, value in ((KEYS[0], 1000), (KEYS[1], 1000)):
        for start in range(0, size, 500):
            pairs = []
            for number in range(start, min(start + 500, size)):
                pairs += [f"shim{number % SHIMS}-1.{number}.1", f"{value}:{now - number}"]
            server.command("HSET", key, *pairs)
    server.command("HSET", KEYS[2], "c_burst", 200000, "r_tok", 40000, "k_inflight", 2000000,
                   "c_req", 60, "r_qps", 20)
    server.command("HSET", KEYS[3], "tokens", 0, "requests", 0)
    count = max(10, 20000 // size)
    return server.spent_us([acquire(server.scan, number) for number in range(count)]) / count


def rates(server, count=10_000):
    """Decisions a second of the server's processor time, reading, answering and all; and those of a
    script that does nothing with the same keys and arguments."""
    create(server, MANY)
    decided = server.processor_s([acquire(server.script, number) for number in range(count)])
    empty = server.processor_s([acquire(server.empty, number) for number in range(count)])
    return count / decided, count / empty


def measure(results, say):
    server = Server()
    try:
        say("valkey: a decision of gate.lua, with 10, 500 and 5,000 leases and as many waiters")
        for _ in range(ROUNDS):
            ours = {size: acquire_us(server, size) for size in SIZES}
            scans = {size: scan_us(server, size) for size in SIZES}
            for size in SIZES:
                results.add(f"valkey.acquire_us.{size}", "us", ours[size])
                results.add(f"valkey.scan_us.{size}", "us", scans[size])
            for size in SIZES[1:]:
                results.add(f"valkey.acquire_growth.{size}", "ratio", ours[size] / ours[SIZES[0]])
                results.add(f"valkey.scan_ratio.{size}", "ratio", scans[size] / ours[size])
            decided, empty = rates(server)
            results.add("valkey.decisions_per_s", "1/s", decided)
            results.add("valkey.rate_share", "ratio", decided / empty)
    finally:
        server.close()


if __name__ == "__main__":
    class Printed:
        def __init__(self):
            self.samples = {}

        def add(self, name, unit, value):
            self.samples.setdefault((name, unit), []).append(value)

    printed = Printed()
    measure(printed, print)
    for (name, unit), values in printed.samples.items():
        print(f"{name:28} {statistics.median(values):12,.3f} {unit}  "
              f"{min(values):,.3f} to {max(values):,.3f}")
