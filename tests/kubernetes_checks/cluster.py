"""The cluster that the checks run in, a web that its pods reach, and a release of the chart.

Whatever was started here has ended when its value is left."""

import contextlib
import copy
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

CHART = "deploy/kubernetes/rhumb"
VALUES = "deploy/kubernetes/examples/test-cluster.yaml"
PROGRAMS = ["rhumb", "host-splitter", "dedup", "resolver", "scheduler", "fetcher", "parser", "archiver"]
STATEFUL = ["dedup", "scheduler"]


# What is timed, and since when; two checks may run at a time.
timing = threading.local()


@contextlib.contextmanager
def timed(what):
    print(f"== {what}", flush=True)
    timing.what, timing.began = what, time.monotonic()
    yield
    print(f"-- {what}: {time.monotonic() - timing.began:.0f} s", flush=True)


def say(text):
    """Tells something of what is timed, and after how many seconds it was so."""
    print(f"   {timing.what} {time.monotonic() - timing.began:3.0f} s: {text}", flush=True)


def until(what, holds, at_most_s=60):
    """Waits until something holds; returns what it gave, and says what was awaited in vain."""
    end = time.monotonic() + at_most_s
    last = None
    while True:
        try:
            last = holds()
            if last:
                return last
        except (AssertionError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
            last = error
        assert time.monotonic() < end, f"waited {at_most_s} s in vain until {what}; last: {last}"
        time.sleep(0.3)


def run(*command, check=True, at_most_s=120, stdin=None, env=None):
    done = subprocess.run(command, capture_output=True, text=True, timeout=at_most_s, input=stdin, env=env)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Cluster:
    """Where releases are installed."""

    def __init__(self, script, programs, keep):
        self.script, self.programs, self.keep = script, programs, keep
        self.open = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        if self.script:
            with timed("cluster up"):
                run(self.script, "up", at_most_s=180)
                for line in run(self.script, "env").stdout.splitlines():
                    for word in line.removeprefix("export ").split(" "):
                        name, _, value = word.partition("=")
                        if name in ("KUBECONFIG", "CLUSTER_HOST_IP"):
                            os.environ[name] = value.strip("'\"")
                        elif name == "PATH":
                            os.environ["PATH"] = value.strip("'\"").replace("$PATH", os.environ["PATH"])
                self.load_images()
        self.host_ip = os.environ["CLUSTER_HOST_IP"]
        return self

    def __exit__(self, *_):
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.script and not self.keep:
            run(self.script, "down", check=False)

    def load_images(self):
        """Images of the layout that the Dockerfile has: the programs in one folder on the PATH, no shell."""
        stripped = self.folder / "bin"
        stripped.mkdir()
        for program in PROGRAMS:
            run("strip", "-o", str(stripped / program), str(self.programs / program))
        broker = self.programs / "nats-server"
        if not broker.exists():
            # The one that tests of whole crawls run.
            found = run("sh", "-c", "ls -d ${XDG_CACHE_HOME:-$HOME/.cache}/rhumb/nats-server-*/nats-server | tail -n 1")
            broker = pathlib.Path(found.stdout.strip())
        images = []
        for tag, programs, command in [
            ("rhumb:dev", [str(stripped / program) for program in PROGRAMS], []),
            ("nats:dev", [str(broker)], ["/bin/nats-server"]),
        ]:
            root, tar = self.folder / tag.split(":")[0], self.folder / f"{tag.replace(':', '-')}.tar"
            run(self.script, "rootfs", str(root), *programs)
            if tag == "rhumb:dev":
                run(self.script, "image", "rhumb:next", str(root), str(self.folder / "next.tar"))
                images.append(str(self.folder / "next.tar"))
            run(self.script, "image", tag, str(root), str(tar), *command)
            images.append(str(tar))
        run(self.script, "load", *images)

    def part(self):
        """The same cluster, for a check that runs beside others: it has releases and webs of its own."""
        part = copy.copy(self)
        part.open = []
        return part

    def web(self, *arguments):
        """A synthetic web that pods reach."""
        web = Web(self, arguments)
        self.open.append(web)
        return web

    def release(self, name, web, *settings):
        release = Release(self, name, web, settings)
        self.open.append(release)
        return release

    def tell(self):
        """What an operator would look at after a failure."""
        for command in (["get", "pods", "-o", "wide"], ["get", "events", "--sort-by=.lastTimestamp"]):
            said = kubectl(*command, check=False).stdout.splitlines()
            print("\n".join(said[-30:]), flush=True)
        for pod in kubectl("get", "pods", "-o", "name", check=False).stdout.split():
            log = kubectl("logs", pod, "--tail=6", check=False).stdout
            print(f"{pod}:\n{log}", flush=True)

    def clear(self):
        while self.open:
            self.open.pop().close()

    def in_node(self, *command, check=True):
        """Runs a command in the namespaces of the one node; none where there is no script of the cluster."""
        if not self.script:
            return None
        cache = os.environ.get("CLUSTER_CACHE") or pathlib.Path(os.environ["KUBECONFIG"]).parent.parent
        pid = (pathlib.Path(cache) / "run/pid").read_text().strip()
        return run("nsenter", "-t", pid, "-m", *command, check=check)


def kubectl(*arguments, check=True, at_most_s=120, stdin=None):
    return run("kubectl", *arguments, check=check, at_most_s=at_most_s, stdin=stdin)


class Web:
    """A synthetic web on the address of this machine that pods reach."""

    def __init__(self, here, arguments):
        self.here = here
        command = [str(here.programs / "synthetic-web"), "--address", here.host_ip, "--exact", "--for", "900", *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.told = json.loads(self.process.stdout.readline())

    @property
    def seed(self):
        return self.told["seeds"][0]

    def report(self):
        said = run(str(self.here.programs / "synthetic-web"), "report", "--control", self.told["control"], check=False)
        return json.loads(said.stdout)

    def close(self):
        self.process.kill()
        self.process.wait()


class Release:
    """A release of the chart, and the crawl that it runs."""

    def __init__(self, here, name, web, settings):
        self.here, self.name, self.web = here, name, web
        self.settings = ["-f", VALUES]
        if web:
            self.settings += ["--set", f"config.network.nameservers={{{web.told['dns']}}}"]
        for setting in settings:
            self.settings += ["--set", setting]

    def install(self, *more, wait=True):
        waits = ["--wait", "--timeout", "120s"] if wait else []
        run("helm", "upgrade", "--install", self.name, CHART, *self.settings, *waits, *more, at_most_s=150)
        return self

    def uninstall(self):
        run("helm", "uninstall", self.name, "--wait", "--timeout", "90s", check=False, at_most_s=120)

    def broker(self):
        address = kubectl("get", "service", f"{self.name}-nats", "-o", "jsonpath={.spec.clusterIP}").stdout
        return f"nats://{address}:4222"

    def rhumb(self, *arguments, check=True, stdin=None, at_most_s=60):
        """Runs `rhumb` on this machine, which is outside of the cluster and reaches the broker."""
        env = {**os.environ, "RHUMB__BROKER__URL": self.broker(), "RHUMB__CRAWL": self.name}
        program = str(self.here.programs / "rhumb")
        return run(program, *arguments, check=check, stdin=stdin, at_most_s=at_most_s, env=env)

    def status(self):
        return json.loads(self.rhumb("status", "--json").stdout)

    def inject(self):
        self.rhumb("inject", "--seeds", "-", stdin=self.web.seed + "\n")

    def scale(self, stage, replicas):
        kind = "statefulset" if stage in STATEFUL + ["archiver"] else "deployment"
        kubectl("scale", f"{kind}/{self.name}-{stage}", f"--replicas={replicas}")

    def conductor(self, path):
        address = kubectl("get", "service", f"{self.name}-conductor", "-o", "jsonpath={.spec.clusterIP}").stdout
        return run("curl", "-sS", "--max-time", "5", f"http://{address}:9100{path}").stdout

    def pages(self):
        return self.status()["pages"]

    def until_pages(self, n, at_most_s=90):
        return until(f"{n} pages", lambda: self.pages() >= n, at_most_s)

    def rate(self, for_s):
        """Pages a second, by what the web was asked."""
        before, began = self.web.report()["requests"], time.monotonic()
        time.sleep(for_s)
        return (self.web.report()["requests"] - before) / (time.monotonic() - began)

    def pods(self, component, phase="Running"):
        selector = f"app.kubernetes.io/instance={self.name},app.kubernetes.io/component={component}"
        found = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json").stdout)["items"]
        is_meant = lambda pod: pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]
        return [pod["metadata"]["name"] for pod in found if is_meant(pod)]

    def until_scaled(self, stage, n, at_most_s=90):
        """Waits until a stage has so many instances, and these all its partitions if it has any."""

        def holds():
            ready = [process for process in self.status()["processes"] if process["stage"] == stage]
            if len(ready) != n or not all(process["ready"] for process in ready) or len(self.pods(stage)) != n:
                return False
            if stage not in STATEFUL:
                return True
            lines = [json.loads(line) for line in self.rhumb("partitions", "--json").stdout.splitlines()]
            own = [line for line in lines if line["stage"] == stage and line["state"] != "retired"]
            owners = {line["owner"] for line in own}
            return owners == set(range(n)) and all(line["state"] == "owned" for line in own)

        return until(f"{stage} has {n} instances", holds, at_most_s)

    def finish(self, at_most_s=180, repeats_max=None):
        """Waits for the end of the crawl, and compares it with the truth."""
        until("the crawl is complete", lambda: self.status()["complete"], at_most_s)
        checked = self.rhumb("status", "--check", check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        report, summary = self.web.report(), self.status()
        violations = {name: n for name, n in report["violations"].items() if n}
        assert not violations, violations
        assert report["missing"]["count"] == 0, report["missing"]
        assert report["unexpected"]["count"] == 0 and report["hosts_without_robots_first"] == 0, report
        assert summary["pages"] == report["pages"]["expected"], (summary["pages"], report["pages"])
        assert not summary["elsewhere"], summary["elsewhere"]
        repeats = report["repeats"]["count"]
        assert repeats_max is None or repeats <= repeats_max, f"{repeats} requests were made twice"
        say(f"complete and exact: {summary['pages']} pages, {repeats} requested twice, no violation, every URL accounted for")
        return summary

    def close(self):
        self.uninstall()
        kubectl("delete", "pvc", "-l", f"app.kubernetes.io/instance={self.name}", "--wait=false", check=False)
