"""What tests/prometheus does when its tools are there: python3 prometheus.py PROGRAMS PROMETHEUS PROMTOOL FOLDER."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PROGRAMS, PROMETHEUS, PROMTOOL, FOLDER = (pathlib.Path(argument) for argument in sys.argv[1:5])
DATA = FOLDER / "data"
# Connections of a fetcher: fewer than there are servers, so that more fetchers are wanted.
CONNECTIONS, SERVERS = 16, 40
# What alerts wait for, and look back to, is shortened to this.
FOR, RANGE = "1s", "8s"
# Kills take longer than that.
RANGE_OF_RESTARTS = "30s"
PROBE_P99_S = 0.25

started = []


def start(*command, **more):
    process = subprocess.Popen([str(part) for part in command], **more)
    started.append(process)
    return process


def stop_all():
    for process in reversed(started):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.terminate()
    for process in reversed(started):
        try:
            process.wait(40)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, at_most_s, look):
    """Waits until `look` gives something that is true, and gives that."""
    end = time.monotonic() + at_most_s
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.2)
    log = (FOLDER / "log").read_text()[-2000:]
    sys.exit(f"not within {at_most_s} s: {what}\n{log}")


def get(url, at_most_s=5):
    with urllib.request.urlopen(url, timeout=at_most_s) as answer:
        return answer.read().decode()


def status():
    said = subprocess.run([PROGRAMS / "rhumb", "status", "--json", "--data", DATA], capture_output=True, timeout=30)
    try:
        return json.loads(said.stdout)
    except ValueError:
        return None


def processes(stage):
    """The processes of a stage that answer."""
    return [process for process in (status() or {"processes": []})["processes"] if process["stage"] == stage]


def pid(stage):
    return until(f"a process of {stage}", 30, lambda: processes(stage))[0]["pid"]


def write_targets():
    """Has Prometheus look at the processes that there are; gives their addresses by job."""
    groups = subprocess.run(
        ["deploy/prometheus/targets"], input=json.dumps(status()), capture_output=True, text=True, check=True
    ).stdout
    (FOLDER / "targets.new").write_text(groups)
    (FOLDER / "targets.new").rename(FOLDER / "targets.json")
    return {group["labels"]["job"]: group["targets"] for group in json.loads(groups)}


# The web and the crawl


def start_web():
    with open(FOLDER / "web.json", "w") as out:
        start(PROGRAMS / "synthetic-web", "--hosts", SERVERS, "--pages", "5000", "--exact", "--latency", "50",
              "--not-found", "0.03", "--redirects", "0.05", stdout=out)
    return json.loads(until("the web", 30, lambda: (FOLDER / "web.json").read_text()))


def start_crawl(web):
    keys = {
        "network.nameservers": f'["{web["dns"]}"]',
        "network.allow_private_addresses": "true",
        "network.user_agent": "rhumb-test",
        "politeness.delay": "0s",
        "stages.archiver.replicas": "1",
        "stages.fetcher.connections": CONNECTIONS,
        "stages.scheduler.job_lease": "5s",
        "stages.fetcher.renew_every": "1s",
        # Names are asked for again and again.
        "stages.resolver.cache.refresh": "1s",
        "stages.resolver.cache.lifetime_max": "2s",
        # A small stream is soon full.
        "broker.max_payload": "1MiB",
        "limits.body_bytes_max": "512KiB",
        "edges.pages.bytes_max": "2MiB",
        # Copies are compared where pages may be visited again: here after an hour.
        "recrawl.policy": "fresh",
        # Numbers by topic are told where there are topics.
        "topics.news.priority": "1",
        # It is killed and started again where it was.
        "stages.parser.listen": f"127.0.0.1:{free_port()}",
    }
    sets = [part for key, value in keys.items() for part in ("--set", f"{key}={value}")]
    with open(FOLDER / "log", "w") as log:
        crawl = start(PROGRAMS / "rhumb", "crawl", web["seeds"][0], "--data", DATA, "--scope", "any", *sets,
                      stdout=log, stderr=log)
    ready = lambda found: found and len([one for one in found["processes"] if one.get("ready")]) == 7
    until("all stages are ready", 90, lambda: ready(status()))
    return crawl


# Prometheus


def start_prometheus():
    rules = pathlib.Path("deploy/prometheus/rules.yaml").read_text()
    rules = re.sub(r"\bfor: \w+", f"for: {FOR}", rules)
    rules = re.sub(r"(changes\(.*)\[\d+m\]", rf"\1[{RANGE_OF_RESTARTS}]", rules)
    rules = re.sub(r"\[\d+m\]", f"[{RANGE}]", rules).replace("oldest_seconds > 600", "oldest_seconds > 5")
    (FOLDER / "rules.yaml").write_text(rules)
    config = pathlib.Path("deploy/prometheus/prometheus.yaml").read_text()
    config = config.replace("10s", "1s").replace("global:", "global:\n  scrape_timeout: 1s")
    (FOLDER / "prometheus.yaml").write_text(config)
    port = free_port()
    log = open(FOLDER / "prometheus.log", "w")
    start(PROMETHEUS, f"--config.file={FOLDER}/prometheus.yaml", f"--storage.tsdb.path={FOLDER}/tsdb",
          f"--web.listen-address=127.0.0.1:{port}", stdout=log, stderr=log)
    return f"http://127.0.0.1:{port}"


class Watch(threading.Thread):
    """Asks Prometheus all queries of the dashboard until each has returned data, and which alerts fire."""

    def __init__(self, prometheus):
        super().__init__(daemon=True)
        self.prometheus, self.firing, self.ever = prometheus, set(), set()
        dashboard = json.loads(pathlib.Path("deploy/grafana/rhumb.json").read_text())
        self.queries = {target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])}
        self.all = len(self.queries)

    def run(self):
        while True:
            with contextlib.suppress(urllib.error.URLError, TimeoutError, ConnectionError):
                alerts = json.loads(get(f"{self.prometheus}/api/v1/alerts"))["data"]["alerts"]
                self.firing = {(one["labels"]["alertname"], one["labels"].get("job")) for one in alerts
                               if one["state"] == "firing"}
                self.ever |= {name for name, _ in self.firing}
                self.queries -= {query for query in self.queries if self.has_data(query)}
            time.sleep(0.5)

    def has_data(self, query):
        for variable, value in (("$namespace", ".*"), ("$crawl", ".*"), ("$job", ".*"), ("$__rate_interval", RANGE)):
            query = query.replace(variable, value)
        url = f"{self.prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        return any(one["value"][1] != "NaN" for one in json.loads(get(url))["data"]["result"])

    def fires(self, alert, job=None):
        return any(name == alert and job in (None, of) for name, of in self.firing)


def provoke(watch, what, alerts, do, undo):
    """Alerts fire when something is done, and clear when it is undone."""
    print(f"-- {what}", flush=True)
    begun = time.monotonic()
    do()
    for alert, job in alerts:
        until(f"{alert} of {job} fires when {what}", 60, lambda: watch.fires(alert, job))
        print(f"   {alert} fires after {time.monotonic() - begun:.0f} s", flush=True)
    undo()
    begun = time.monotonic()
    for alert, job in alerts:
        until(f"{alert} of {job} clears after {what}", 60, lambda: not watch.fires(alert, job))
    print(f"   cleared after {time.monotonic() - begun:.0f} s", flush=True)


# What is checked


def check_probes(targets):
    """Probes of all processes, while the crawl is as fast as it can be."""
    addresses = [address for job in targets.values() for address in job]
    took = []
    end = time.monotonic() + 8
    while time.monotonic() < end:
        for address in addresses:
            for path in ("healthz", "readyz"):
                begun = time.monotonic()
                get(f"http://{address}/{path}")
                took.append(time.monotonic() - begun)
        time.sleep(0.02)
    p99 = statistics.quantiles(took, n=100)[98]
    print(f"probes {len(took)}, median {1000 * statistics.median(took):.1f} ms, 99 of 100 {1000 * p99:.1f} ms, "
          f"longest {1000 * max(took):.1f} ms", flush=True)
    if p99 > PROBE_P99_S:
        sys.exit(f"probes took {p99:.3f} s under load, more than {PROBE_P99_S} s")


def check_metrics(targets):
    """promtool accepts what each process tells, and what docs/metrics.md lists appears."""
    names, sizes = set(), {}
    for job, addresses in targets.items():
        text = get(f"http://{addresses[0]}/metrics")
        said = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True)
        if said.returncode != 0 or said.stderr.strip():
            sys.exit(f"promtool check metrics, {job}: {said.stdout}{said.stderr}")
        names |= set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        sizes[job] = len(text)
    listed = re.findall(r"^\| `(\w+|rhumb_<stage>_\w+)(?:\{.*\})?` ", pathlib.Path("docs/metrics.md").read_text(), re.MULTILINE)
    def appears(name):
        pattern = re.escape(name).replace("<stage>", "[a-z_]+")
        return any(re.fullmatch(pattern, one) for one in names)
    missing = [name for name in listed if not appears(name)]
    if missing or len(listed) < 100:
        sys.exit(f"of {len(listed)} metrics in docs/metrics.md these do not appear: {missing}")
    print(f"all {len(listed)} metrics of docs/metrics.md appear; promtool accepts {len(targets)} jobs; bytes: {sizes}",
          flush=True)


def nats(subject, reply, payload):
    """Publishes a message at the broker of the crawl."""
    control = json.loads((DATA / "control.json").read_text())
    address = urllib.parse.urlsplit(control["broker"])
    with socket.create_connection((address.hostname, address.port), 10) as connection:
        connection.recv(65536)
        hello = json.dumps({"verbose": False, "auth_token": address.username})
        connection.sendall(f"CONNECT {hello}\r\n".encode())
        subject = subject.replace("CRAWL", control["crawl"])
        connection.sendall(f"PUB {subject} {reply} {len(payload)}\r\n".encode() + payload + b"\r\n")
        connection.sendall(b"PING\r\n")
        while b"PONG" not in connection.recv(65536):
            pass
    time.sleep(0.5)


def signals(stage, number):
    chosen = pid(stage)
    return lambda: os.kill(chosen, number)


def stopped(stage):
    chosen = pid(stage)
    return lambda: os.kill(chosen, signal.SIGSTOP), lambda: os.kill(chosen, signal.SIGCONT)


def kill_again_and_again():
    killed = None
    for _ in range(5):
        found = until("the parser is back", 20, lambda: [one for one in processes("parser") if one["pid"] != killed])
        # Long enough for Prometheus to see it work.
        time.sleep(2.5)
        killed = found[0]["pid"]
        os.kill(killed, signal.SIGKILL)


def scale(n):
    subprocess.run([PROGRAMS / "rhumb", "scale", f"fetcher={n}", "--data", DATA], check=True, timeout=60,
                   capture_output=True)
    until(f"{n} fetchers", 30, lambda: len(processes("fetcher")) == n)
    write_targets()


def provoke_all(watch, crawl):
    corrupt = ("rhumb.CRAWL.pages", "", b"this is no page")
    purge = ("$JS.API.STREAM.PURGE.rhumb_CRAWL_dead", "_INBOX.test", b"{}")
    provoke(watch, "corrupt messages come", [("RhumbDeadLetters", None)], lambda: nats(*corrupt), lambda: nats(*purge))
    held_up = [("RhumbTargetDown", "parser"), ("RhumbEdgeNearlyFull", None), ("RhumbEdgeStalled", None),
               ("RhumbStageHeldBack", "fetcher"), ("RhumbNothingFetched", None)]
    provoke(watch, "the parser stands still", held_up, *stopped("parser"))
    provoke(watch, "the broker stands still", [("RhumbNotReady", "scheduler"), ("RhumbNotReady", "dedup")], *stopped("broker"))
    missing = [("RhumbConductorMissing", None), ("RhumbTargetDown", "conductor")]
    provoke(watch, "the supervisor stands still", missing, lambda: crawl.send_signal(signal.SIGSTOP),
            lambda: crawl.send_signal(signal.SIGCONT))
    provoke(watch, "a fetcher is killed", [("RhumbLeasesExpire", None)], signals("fetcher", signal.SIGKILL), lambda: None)
    provoke(watch, "the parser is killed again and again", [("RhumbProcessRestarts", "parser")], kill_again_and_again,
            lambda: None)


def main():
    web = start_web()
    crawl = start_crawl(web)
    targets = write_targets()
    prometheus = start_prometheus()
    until("Prometheus answers", 30, lambda: answers(prometheus))
    watch = Watch(prometheus)
    watch.start()
    check_metrics(targets)
    provoke(watch, "there is one fetcher for many servers", [("RhumbMoreFetchers", None)], lambda: None, lambda: scale(2))
    check_probes(write_targets())
    # With one, the parser has time left: what is full for a while is empty again afterwards.
    scale(1)
    provoke_all(watch, crawl)
    until(f"every query of the dashboard returns data: {watch.queries}", 20, lambda: not watch.queries)
    print(f"all {watch.all} queries of the dashboard return data; alerts that fired: {', '.join(sorted(watch.ever))}")
    crawl.send_signal(signal.SIGINT)
    if crawl.wait(60) != 130:
        sys.exit((FOLDER / "log").read_text()[-2000:])
    print("1 passed, 0 failed")


def answers(prometheus):
    try:
        return get(f"{prometheus}/-/ready")
    except (urllib.error.URLError, ConnectionError):
        return None


try:
    main()
finally:
    stop_all()
