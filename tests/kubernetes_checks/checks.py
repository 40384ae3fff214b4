"""What a crawl has to live through in a cluster. Each check is a function; its first line says what it shows."""

import json
import os
import pathlib
import shlex
import time

from cluster import STATEFUL, kubectl, run, say, until

# A web on which fetchers wait, not the machine.
SLOW = ["--hosts", "60", "--latency", "250"]


def first_page(here):
    """The first page is fetched within 30 s of `helm install`; an idle fleet costs little."""
    web = here.web("--hosts", "4", "--pages", "10")
    began = time.monotonic()
    release = here.release("first", web).install(wait=False)
    until("the broker takes seeds", lambda: release.rhumb("inject", web.seed, check=False, at_most_s=20).returncode == 0)
    until("a page is requested", lambda: web.report()["pages"]["requested"] > 0)
    took_s = time.monotonic() - began
    say(f"first page {took_s:.1f} s after helm install")
    assert took_s <= 30, took_s
    release.finish()
    said = run("helm", "test", release.name, "--timeout", "60s", check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    idle(release)


def idle(release):
    def own(name):
        lines = release.conductor("/metrics").splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"rhumb_conductor_process_{name}"))

    cpu = lambda: sum(process["cpu_s"] for process in release.status()["processes"]) + own("cpu_seconds_total")
    pod = json.loads(kubectl("get", "pod", f"{release.name}-nats-0", "-o", "json").stdout)["status"]["podIP"]
    broker = lambda: json.loads(run("curl", "-sS", "--max-time", "5", f"http://{pod}:8222/varz").stdout)
    before, began = cpu(), time.monotonic()
    broker_cpu = []
    while time.monotonic() < began + 20:
        broker_cpu.append(broker()["cpu"] / 100)
        time.sleep(1)
    cores = (cpu() - before) / (time.monotonic() - began) + sum(broker_cpu) / len(broker_cpu)
    memory = sum(process["peak_rss_bytes"] for process in release.status()["processes"]) + broker()["mem"]
    memory += own("resident_memory_bytes")
    nats = sum(broker_cpu) / len(broker_cpu)
    say(f"idle: {cores:.3f} cores, of these NATS {nats:.3f}; {memory / 1e6:.0f} MB with NATS (stages at their peak)")
    assert cores <= 0.1 and memory <= 600e6, (cores, memory)


def readme(here):
    """The five commands of the README, as they stand there but for images, name servers and the seed."""
    web = here.web(*SLOW, "--pages", "30")
    text = pathlib.Path("README.md").read_text().split("## On Kubernetes")[1].split("```sh\n")[1].split("```")[0]
    release = here.release("crawl", web)
    settings = " ".join(shlex.quote(word) for word in release.settings)
    for words, others in [
        ("helm install crawl deploy/kubernetes/rhumb", f"helm install crawl deploy/kubernetes/rhumb {settings}"),
        ("inject https://example.org/ ", f"inject {web.seed} "),
        ("rhumb status --watch", "timeout --signal INT 5 rhumb status --watch || [ $? = 124 ]"),
    ]:
        assert text.count(words) == 1, f"the README has no '{words}'"
        text = text.replace(words, others)
    env = {**os.environ, "PATH": f"{here.programs}:{os.environ['PATH']}"}
    said = run("bash", "-euo", "pipefail", "-c", text, env=env).stdout
    assert "STATUS: deployed" in said and "running for" in said, said
    assert len([line for line in said.splitlines() if line.startswith("pages  ")]) == 5, f"not five pages were tapped: {said}"
    release.until_scaled("fetcher", 4)
    say("install, inject, tap, scale and watch work as the README has them")
    release.finish()


def scale(here):
    """Fetchers 1, 4, 1 by kubectl and by an autoscaler's rule, dedup and scheduler 1, 3, 1, with taps from outside."""
    web = here.web(*SLOW, "--pages", "150")
    release = here.release("scale", web, "config.stages.fetcher.connections=8", "config.politeness.delay=0s").install()
    release.inject()
    release.until_pages(50)
    one = release.rate(12)
    tap = release.rhumb("tap", "urls.new", "--limit", "2", "--format", "json")
    assert len(tap.stdout.splitlines()) == 2, tap.stdout
    release.scale("fetcher", 4)
    release.until_scaled("fetcher", 4)
    time.sleep(3)
    four = release.rate(12)
    say(f"{one:.0f} requests/s with one fetcher, {four:.0f} with four: {four / one:.2f} times")
    assert four >= 3.5 * one, (one, four)
    release.scale("fetcher", 1)
    release.until_scaled("fetcher", 1)
    # What KEDA's metrics-api scaler does with an average value: so many replicas that each has its share.
    asked = json.loads(release.conductor("/scale"))["fetchers"]
    replicas = -(-asked["connections_wanted"] // asked["connections_each"])
    say(f"/scale: {asked}")
    assert replicas == asked["instances_wanted"] and replicas > 4, asked
    release.scale("fetcher", min(replicas, 6))
    for stage in STATEFUL:
        release.scale(stage, 3)
    for stage in STATEFUL:
        release.until_scaled(stage, 3)
    assert not release.status()["complete"], "the crawl was too short"
    for stage in STATEFUL:
        release.scale(stage, 1)
    for stage in STATEFUL:
        release.until_scaled(stage, 1)
    release.finish()


def kill(here):
    """Pods of every stage, of the conductor and of one of three NATS nodes are deleted by force in the middle of a crawl."""
    web = here.web(*SLOW, "--pages", "60")
    release = here.release(
        "kill", web, "archiver.replicas=1", "config.stages.fetcher.connections=16", "nats.replicas=3"
    ).install()
    release.inject()
    release.until_pages(30)
    components = ["fetcher", "scheduler", "dedup", "conductor", "parser", "host-splitter", "resolver", "archiver", "nats"]
    for component in components:
        # The node of NATS that leads most streams may be any.
        for pod in release.pods(component)[:1]:
            kubectl("delete", "pod", pod, "--force", "--grace-period=0")
        before = web.report()["requests"]
        until("the crawl goes on", lambda: web.report()["requests"] > before + 10, 60)
        until(f"{component} is back", lambda: release.pods(component), 60)
    say(f"killed: {', '.join(components)}")
    assert not release.status()["complete"], "the crawl was too short"
    release.scale("fetcher", 4)
    release.finish()


def upgrade(here):
    """A rolling update of every stage costs little of the throughput; the node is drained; the release comes back."""
    web = here.web(*SLOW, "--pages", "280")
    release = here.release(
        "update", web, "dedup.replicas=2", "scheduler.replicas=2", "fetcher.replicas=2", "parser.replicas=2",
        "hostSplitter.replicas=2", "resolver.replicas=2", "config.stages.fetcher.connections=16",
        "config.politeness.delay=0s",
    ).install()
    release.inject()
    release.until_pages(100)
    before = release.rate(10)
    in_flight, began, asked = release.status()["in_flight"], time.monotonic(), web.report()["requests"]
    release.install("--set", "image.tag=next")
    for stage in ["fetcher", "parser", "host-splitter", "resolver", *STATEFUL]:
        kind = "statefulset" if stage in STATEFUL else "deployment"
        kubectl("rollout", "status", f"{kind}/{release.name}-{stage}", "--timeout=180s", at_most_s=200)
    took_s = time.monotonic() - began
    meanwhile = (web.report()["requests"] - asked) / took_s
    repeats = web.report()["repeats"]["count"]
    say(f"rolling update of all stages in {took_s:.0f} s: {before:.0f} requests/s before, {meanwhile:.0f} meanwhile "
        f"({100 * meanwhile / before:.0f} %), {repeats} requests twice, {in_flight} in flight before")
    # A crawl that ends has fewer requests a second as well.
    left = web.report()["pages"]["expected"] - web.report()["pages"]["requested"]
    assert left > 10 * before, f"the crawl was too short: {left} pages are left"
    assert meanwhile >= 0.8 * before and repeats <= in_flight, (before, meanwhile, repeats, in_flight)

    node = kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}").stdout
    # On a cluster of one node nothing comes back before it is uncordoned, so disruption budgets hold most pods there.
    said_of = kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=15s", check=False)
    kubectl("uncordon", node)
    assert "evicted" in said_of.stdout or "evicting" in said_of.stderr + said_of.stdout, said_of.stdout + said_of.stderr
    pages = until("the broker is back", release.pages)
    until("pages after the drain", lambda: release.pages() > pages + 50)
    release.uninstall()
    release.install("--set", "image.tag=next")
    say("drained, uncordoned, uninstalled, and installed again on the same claims")
    assert not release.status()["complete"], "the crawl was too short"
    release.scale("fetcher", 6)
    release.finish(at_most_s=240)


FULL = "/tmp/full-claim"


def full_claim(here):
    """A claim that is full: the stage says so, nothing is lost, and the crawl goes on when there is room."""
    if here.in_node("mkdir", "-p", FULL) is None:
        say("left out: only the script of a one-node cluster can make a disk of a size")
        return
    here.in_node("mount", "-t", "tmpfs", "-o", "size=3M,mode=777", "tmpfs", FULL)
    volume = {
        "apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "full"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": FULL},
                "storageClassName": "full", "persistentVolumeReclaimPolicy": "Retain"}},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
                "name": "data-full-scheduler-0", "labels": {"app.kubernetes.io/instance": "full"}}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "full", "volumeName": "full",
                "resources": {"requests": {"storage": "1Gi"}}}},
        ],
    }
    try:
        kubectl("apply", "-f", "-", stdin=json.dumps(volume))
        web = here.web("--hosts", "40", "--latency", "60", "--pages", "300")
        release = here.release("full", web, "config.politeness.delay=0s").install(wait=False)
        until("the broker takes seeds", lambda: release.rhumb("inject", web.seed, check=False, at_most_s=20).returncode == 0)

        def says():
            logs = [kubectl("logs", "full-scheduler-0", *which, check=False).stdout for which in ([], ["--previous"])]
            return next((line for log in logs for line in log.splitlines() if "No space left on device" in line), None)

        line = until("the scheduler says that its disk is full", says, 90)
        say(f"said: {line[:160]}")
        here.in_node("mount", "-o", "remount,size=1G", FULL)
        release.finish(at_most_s=240)
    finally:
        here.clear()
        kubectl("delete", "pv", "full", "--wait=false", check=False)
        here.in_node("umount", "-l", FULL, check=False)


def missing_instance(here):
    """A pod that ended before it was emptied is named in `status` and in an event, with the remedy, which works."""
    web = here.web(*SLOW, "--pages", "40")
    release = here.release("miss", web, "dedup.replicas=2", "config.stages.fetcher.connections=16").install()
    release.inject()
    release.until_scaled("dedup", 2)
    release.until_pages(20)
    # Without a conductor nobody tells it that it is not wanted any more: it stops with its partitions.
    kubectl("scale", "deployment/miss-conductor", "--replicas=0")
    until("the conductor is gone", lambda: not release.pods("conductor"))
    kubectl("scale", "statefulset/miss-dedup", "--replicas=1")
    kubectl("wait", "--for=delete", "pod/miss-dedup-1", "--timeout=100s")
    kubectl("scale", "deployment/miss-conductor", "--replicas=1")
    words = until("status names the instance", lambda: release.status()["elsewhere"], 60)
    assert "dedup.1 ended before it had given" in words[0] and "scale dedup out to 2" in words[0], words
    events = until("an event names it", lambda: [
        event["message"] for event in json.loads(kubectl("get", "events", "-o", "json").stdout)["items"]
        if event["reason"] == "InstanceMissing"])
    say(f"event: {events[0]}")
    kubectl("scale", "statefulset/miss-dedup", "--replicas=2")
    until("it is back", lambda: not release.status()["elsewhere"], 60)
    kubectl("scale", "statefulset/miss-dedup", "--replicas=1")
    release.until_scaled("dedup", 1)
    release.scale("fetcher", 4)
    release.finish()


def users(here, folder, name):
    """Users of a crawl in a Secret."""
    run(str(here.programs / "rhumb"), "auth", "--out", str(folder), "--set", f"crawl={name}")
    kubectl("delete", "secret", f"{name}-users", "--ignore-not-found")
    kubectl("create", "secret", "generic", f"{name}-users", "--from-file", str(folder))


def access(here):
    """Every pod has its own user at the chart's NATS; with keys that it does not know the log says who is refused."""
    web = here.web("--hosts", "10", "--pages", "40")
    folder = here.folder / "users"
    users(here, folder, "guarded")
    release = here.release("guarded", web, "broker.credentials.existingSecret=guarded-users")
    try:
        release.install()
        as_user = lambda user, *arguments: release.rhumb(*arguments, "--set", f"broker.credentials={folder / user}.nk",
                                                         check=False)
        refused = release.rhumb("status", check=False)
        assert refused.returncode == 1 and "lets in nobody without credentials" in refused.stderr, refused.stderr
        injected = as_user("operator", "inject", web.seed)
        assert injected.returncode == 0, injected.stderr
        summary = until("the crawl is complete", lambda: complete(as_user("tap", "status", "--json").stdout), 120)
        assert summary["pages"] == web.report()["pages"]["expected"] and web.report()["ok"], web.report()
        tapped = as_user("tap", "inject", web.seed)
        assert tapped.returncode != 0, "who taps injects nothing"
        say(f"complete and exact with a user for each stage: {summary['pages']} pages")

        # Other keys, of which the broker does not know.
        kubectl("delete", "secret", "guarded-users")
        users(here, here.folder / "others", "guarded")
        kubectl("rollout", "restart", "deployment/guarded-fetcher")
        line = until("the log names the user that is refused", lambda: said("guarded", "fetcher", "refuses the credentials"))
        assert (here.folder / "others/fetcher.nk").read_text().strip() not in line
        say(f"wrong credentials: {line[:160]}")
    finally:
        here.open.remove(release)
        release.close()
        kubectl("delete", "secret", "guarded-users", "--ignore-not-found")


def complete(text):
    summary = json.loads(text)
    return summary if summary["complete"] else None


def bad_input(here):
    """A missing secret, an unreachable broker and two releases with one crawl name are said clearly."""
    web = here.web("--hosts", "4", "--pages", "10")
    own = here.release("own", web).install()
    twin = here.release("twin", web, "nats.enabled=false", f"broker.urls={{{own.broker()}}}", "config.crawl=own")
    twin.install(wait=False)
    line = until("the second release's init is refused", lambda: last_line("job/twin-init-1", "of 'default/own'"), 60)
    say(f"two releases: {line}")
    # Nor does any other pod of it take part.
    refused = until("the second release's pods are refused", lambda: said("twin", "fetcher", "of 'default/own'"), 60)
    assert not any(twin.pods(stage) and ready(twin, stage) for stage in ["fetcher", "dedup", "parser"]), refused
    twin.uninstall()

    lost = here.release("lost", web, "nats.enabled=false", "broker.urls={nats://10.255.255.1:4222}")
    lost.install(wait=False)
    line = until("an unreachable broker is named", lambda: said("lost", "fetcher", "cannot be reached"), 90)
    say(f"unreachable broker: {line}")
    absent = here.release("absent", web, "nats.enabled=false", "broker.existingSecret=absent")
    absent.install(wait=False)
    until("an event names the missing secret", lambda: any(
        'secret "absent" not found' in event.get("message", "")
        for event in json.loads(kubectl("get", "events", "-o", "json").stdout)["items"]), 60)
    say("missing secret: an event names it")
    refused = run("helm", "template", "x", "deploy/kubernetes/rhumb", "--set", "nats.replicas=2", check=False)
    assert refused.returncode and "nats" in refused.stderr, refused.stderr
    say("a value out of range is refused by the schema")


def said(release, component, words):
    """The first line with these words in the logs of all pods of a component."""
    selector = f"app.kubernetes.io/instance={release},app.kubernetes.io/component={component}"
    log = kubectl("logs", "-l", selector, "--tail=-1", check=False).stdout
    return next((line for line in log.splitlines() if words in line), None)


def ready(release, component):
    selector = f"app.kubernetes.io/instance={release.name},app.kubernetes.io/component={component}"
    pods = json.loads(kubectl("get", "pods", "-l", selector, "-o", "json").stdout)["items"]
    return any(status["ready"] for pod in pods for status in pod["status"].get("containerStatuses", []))


def last_line(what, words):
    lines = kubectl("logs", what, check=False).stdout.strip().splitlines()
    return lines[-1] if lines and words in lines[-1] else None


# These measure nothing, and wait most of the time. The node is slow to forget a pod while the disk of full_claim is mounted anew.
TWO_AT_A_TIME = [missing_instance, access, bad_input, full_claim]
ALL = [first_page, readme, scale, kill, upgrade, *TWO_AT_A_TIME]
