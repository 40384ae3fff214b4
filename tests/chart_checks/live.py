"""The chart's commands, run on loopback as its pods would run them: its own NATS, `rhumb init`, the conductor, all stages.

In: a rendering for a crawl that may contact private addresses. Out: a running crawl, which is asked what the chart, KEDA and
an operator ask of it. Addresses, ports and folders are others than in a pod; the rest is the chart's. Ends what it started.
"""

import json
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from helm import of_kind, pipeline_of, pod_specs
from programs import STAGES, environment
from report import Failed, must

READY_S = 60
DRAIN_S = 40


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def get(port, path):
    """Status and body; none when nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return None, ""


def until(seconds, what, holds):
    """Waits for a condition, which says what it saw last when it does not hold."""
    deadline, seen = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        seen = holds()
        if seen is True:
            return
        time.sleep(0.1)
    raise Failed(f"{what}: not within {seconds} s: {seen}")


class Crawl:
    """A release on loopback. Where the chart gives credentials to its pods, `rhumb auth` makes them."""

    def __init__(self, documents, programs, tools):
        self.documents, self.programs, self.tools = documents, programs, tools
        self.folder = tempfile.TemporaryDirectory()
        self.work = pathlib.Path(self.folder.name)
        (self.work / "etc").mkdir()
        (self.work / "etc/pipeline.yaml").write_text(pipeline_of(documents))
        self.processes, self.ports = {}, {}
        self.broker, self.monitor = free_port(), free_port()
        self.users = self.work / "users"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()
        self.folder.cleanup()

    def container(self, component):
        """Of the pods of a component."""
        for _, labels, spec in pod_specs(self.documents):
            if labels["app.kubernetes.io/component"] == component:
                return spec["containers"][0]
        raise Failed(f"no pod of {component}")

    def command(self, component):
        container = self.container(component)
        return container["command"] + container.get("args", [])

    def credentials(self, component):
        """What the chart gives to the pods, as it lies here."""
        for variable in self.container(component).get("env", []):
            if variable["name"] == "RHUMB__BROKER__CREDENTIALS":
                return {variable["name"]: str(self.users / pathlib.Path(variable["value"]).name)}
        return {}

    def variables(self, component):
        """What differs from a pod: where the broker is, where state lies, where the process listens."""
        self.ports.setdefault(component, free_port())
        own = {"RHUMB__BROKER__URL": f"nats://127.0.0.1:{self.broker}", "RHUMB__DATA": str(self.work / "data" / component)}
        listen = f"127.0.0.1:{self.ports[component]}"
        if component in STAGES:
            own[f"RHUMB__STAGES__{component.replace('-', '_').upper()}__LISTEN"] = listen
        elif component == "conductor":
            own["RHUMB__CONDUCTOR__LISTEN"] = listen
        return environment(**own, **self.credentials(component))

    def words(self, component):
        """The command line, where this machine's paths and names replace a pod's."""
        words = [str(self.work / "etc/pipeline.yaml") if word == "/etc/rhumb/pipeline.yaml" else word for word in self.command(component)]
        if component in ("dedup", "scheduler", "archiver"):
            # The number is at the end of a pod's name, and this machine's name has none.
            words[words.index("--instance") + 1] = "0"
        while "--statefulset" in words:
            # There is no API server to ask.
            at = words.index("--statefulset")
            del words[at : at + 2]
        return [self.programs.path(words[0]), *words[1:]]

    def log(self, component):
        return (self.work / f"{component}.log").read_text()[-600:]

    def begin(self, component, words, variables):
        with open(self.work / f"{component}.log", "w") as log:
            self.processes[component] = subprocess.Popen(
                words, env=variables, cwd=self.work / "etc", stdout=log, stderr=subprocess.STDOUT
            )

    def run(self, words, variables=None, cwd=None):
        """Runs a command to its end."""
        variables = variables or self.variables("init")
        cwd = cwd or self.work / "etc"
        return subprocess.run(words, env=variables, cwd=cwd, capture_output=True, text=True, timeout=60)

    def make_users(self):
        """As an operator does it before the installation."""
        words = [self.programs.path("rhumb"), "auth", "--out", str(self.users), "--set", "crawl=crawl"]
        done = self.run(words, environment())
        must(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
        # The Secret has all files of the folder, and lies beside the configuration of NATS.
        (self.work / "users.conf").write_text((self.users / "users.conf").read_text())

    def who_has_no_key_is_refused(self):
        done = self.run([self.programs.path("rhumb"), "status"], environment(RHUMB__BROKER__URL=f"nats://127.0.0.1:{self.broker}"))
        must(done.returncode != 0, f"NATS lets anybody in: {done.stdout}")

    def begin_nats(self):
        """With the chart's configuration."""
        [text] = [d["data"]["nats.conf"] for d in of_kind(self.documents, "ConfigMap") if "nats.conf" in d["data"]]
        text = text.replace("0.0.0.0:4222", f"127.0.0.1:{self.broker}").replace("0.0.0.0:8222", f"127.0.0.1:{self.monitor}")
        text = text.replace("store_dir: /data", f'store_dir: "{self.work}/jetstream"')
        (self.work / "nats.conf").write_text(text)
        words = [f"{self.tools}/venv/bin/nats-server", "--config", str(self.work / "nats.conf")]
        self.begin("nats", words, environment(POD_NAME="crawl-nats-0"))
        for path in ("/healthz", "/healthz?js-enabled-only=true", "/healthz?js-server-only=true"):
            until(20, f"NATS answers {path}", lambda path=path: get(self.monitor, path)[0] == 200 or self.log("nats"))

    def stages_wait(self):
        """Without `rhumb init` a stage is alive, not ready, and says what it waits for."""
        self.begin("fetcher", self.words("fetcher"), self.variables("fetcher"))
        port = self.ports["fetcher"]
        until(20, "/healthz", lambda: get(port, "/healthz")[0] == 200 or self.log("fetcher"))
        until(20, "/readyz", lambda: get(port, "/readyz")[0] == 503 and "init" in get(port, "/readyz")[1] or get(port, "/readyz"))

    def init(self):
        for _ in range(2):
            done = self.run(self.words("init"))
            must(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")

    def init_says_that_the_claim_is_too_small(self):
        done = self.run(self.words("init"))
        last = done.stderr.strip().splitlines()[-1]
        must(done.returncode == 1, f"exit code {done.returncode}: {done.stderr}")
        must("too little storage" in last and "nats.storage.size" in last, f"the last line does not say what to do: {last}")

    def another_owner_is_refused(self):
        done = self.run([*self.words("init"), "--set", "owner=web/another"])
        must(done.returncode == 2, f"exit code {done.returncode}: {done.stderr}")
        must("web/" in done.stderr.strip().splitlines()[-1], f"the last line names no owner: {done.stderr}")

    def begin_all(self):
        for component in ("conductor", *STAGES):
            if component not in self.processes:
                self.begin(component, self.words(component), self.variables(component))

    def becomes_ready(self):
        for component in ("conductor", *STAGES):
            port = self.ports[component]
            for path in ("/healthz", "/readyz", "/metrics"):
                holds = lambda port=port, path=path, of=component: get(port, path)[0] == 200 or f"{get(port, path)} {self.log(of)}"
                until(READY_S, f"{component} {path}", holds)

    def trigger(self, kind):
        """The only one of its kind."""
        [trigger] = [t for d in of_kind(self.documents, "ScaledObject") for t in d["spec"]["triggers"] if t["type"] == kind]
        return trigger["metadata"]

    def scale_is_served(self):
        """What KEDA reads of fetchers."""
        metadata = self.trigger("metrics-api")
        port, path = metadata["url"].split(":")[2].split("/", 1)
        must(port == "9100", f"KEDA asks port {port}")
        def holds():
            status, body = get(self.ports["conductor"], f"/{path}")
            must(status == 200, f"/{path}: {status} {body}")
            told = value = json.loads(body)
            for key in metadata["valueLocation"].split("."):
                must(key in value, f"{metadata['valueLocation']} is not in {body}")
                value = value[key]
            must(isinstance(value, (int, float)), f"{metadata['valueLocation']} is {value!r}")
            return metadata["targetValue"] == str(told["fetchers"]["connections_each"]) or body

        # The conductor asks the fetchers from time to time.
        until(30, f"a fetcher has {metadata['targetValue']} connections", holds)

    def lag_is_measured(self):
        """The stream and the consumer whose lag KEDA reads are there, in the account that is named."""
        metadata = self.trigger("nats-jetstream")
        _, body = get(self.monitor, f"/jsz?acc={metadata['account']}&consumers=true&config=true")
        for account in json.loads(body)["account_details"]:
            for stream in account["stream_detail"]:
                if stream["name"] == metadata["stream"]:
                    consumers = [consumer["name"] for consumer in stream["consumer_detail"]]
                    must(metadata["consumer"] in consumers, f"{stream['name']} has the consumers {consumers}")
                    return
        raise Failed(f"no stream {metadata['stream']}")

    def helm_test_passes(self):
        """Again where a process has not answered in time: nothing is known then, and the command says so."""
        words = self.command("test")

        def passes():
            done = self.run([self.programs.path(words[0]), *words[1:]], self.variables("test"))
            said = f"exit code {done.returncode}: {done.stdout} {done.stderr}"
            must(done.returncode == 0 or "cannot be checked" in said, said)
            return done.returncode == 0 or said

        until(20, "every URL is accounted for", passes)

    def commands_work_from_anywhere(self):
        """As the notes show it: with the crawl's name and the broker's URL."""
        elsewhere = self.work / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        own = {"RHUMB__CRAWL": "crawl", "RHUMB__BROKER__URL": f"nats://127.0.0.1:{self.broker}"}
        if self.users.exists():
            own["RHUMB__BROKER__CREDENTIALS"] = str(self.users / "operator.nk")
        variables = environment(**own)
        for words in (["rhumb", "status"], ["rhumb", "inject", "http://127.0.0.1:1/"], ["rhumb", "partitions"]):
            done = self.run([self.programs.path(words[0]), *words[1:]], variables, elsewhere)
            must(done.returncode == 0, f"{' '.join(words)}: exit code {done.returncode}: {done.stderr}")

    def drains(self):
        """After SIGTERM every stage ends with 0, and long before its pod would be killed."""
        for component in ("conductor", *STAGES):
            self.processes[component].send_signal(signal.SIGTERM)
        deadline = time.monotonic() + DRAIN_S
        for component in ("conductor", *STAGES):
            code = self.processes[component].wait(max(deadline - time.monotonic(), 0.1))
            must(code == (130 if component == "conductor" else 0), f"{component} ends with {code}: {self.log(component)}")
