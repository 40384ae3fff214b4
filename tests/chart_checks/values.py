"""The values: described, and refused where they are out of range."""

import json

import jsonschema
import yaml

from helm import CHART, ROOT, of_kind, pipeline_of
from report import Failed, must

# Assignments for `--set`, and what the refusal has to name.
REFUSED = [
    ("archiver.replicas=-1", "/archiver/replicas"),
    ("fetcher.replicas=0", "/fetcher/replicas"),
    ("fetcher.replicas=2000", "/fetcher/replicas"),
    ("fetcher.replicas=two", "/fetcher/replicas"),
    ("fetcher.replica=2", "/fetcher"),
    ("fetchers.replicas=2", "fetchers"),
    ("nats.replicas=2", "/nats/replicas"),
    ("nats.replicas=5", "/nats/replicas"),
    ("nats.storage.size=10", "/nats/storage/size"),
    ("nats.storage.size=0Gi", "/nats/storage/size"),
    ("nats.antiAffinity=maybe", "/nats/antiAffinity"),
    ("nats.service.type=ExternalName", "/nats/service/type"),
    ("nats.syncInterval=never", "/nats/syncInterval"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("image.tag=a b", "/image/tag"),
    ("dedup.storage.size=20GB", "/dedup/storage/size"),
    ("dedup.resources.limits.memory=lots", "/dedup/resources/limits/memory"),
    ("autoscaling.fetcher.kind=magic", "/autoscaling/fetcher/kind"),
    ("autoscaling.resolver.kind=keda", "/autoscaling/resolver/kind"),
    ("autoscaling.fetcher.maxReplicas=0", "/autoscaling/fetcher/maxReplicas"),
    ("autoscaling.parser.lagThreshold=0", "/autoscaling/parser/lagThreshold"),
    ("init.backoffLimit=-1", "/init/backoffLimit"),
    ("topologySpread.whenUnsatisfiable=x", "/topologySpread/whenUnsatisfiable"),
    ("networkPolicy.brokerPorts={70000}", "/networkPolicy/brokerPorts"),
    ("monitoring.interval=often", "/monitoring/interval"),
    ("fullnameOverride=Crawl", "/fullnameOverride"),
    ("config.crawl=a.b", "/config/crawl"),
    ("config.partitions=5000", "/config/partitions"),
    ("config.partitions=2.5", "/config/partitions"),
    ("config.politeness.delay=2h", "/config/politeness/delay"),
    ("config.politeness.delay=1", "/config/politeness/delay"),
    ("config.politenes.delay=1s", "politenes"),
    ("config.scope.follow=hosts", "/config/scope/follow"),
    ("config.limits.redirects=51", "/config/limits/redirects"),
    ("config.limits.header_bytes_max=1GiB", "/config/limits/header_bytes_max"),
    ("config.stages.fetcher.connections=0", "/config/stages/fetcher/connections"),
    ("config.stages.fetcher.conections=5", "/config/stages/fetcher"),
    ("config.stages.dedup.store=cloud", "/config/stages/dedup/store"),
    ("config.stages.dedup.buffer_bytes=65GiB", "/config/stages/dedup/buffer_bytes"),
    ("config.stages.scheduler.job_lease=11m", "/config/stages/scheduler/job_lease"),
    # What the chart sets itself.
    ("config.data=/elsewhere", "'data'"),
    ("config.broker.url=nats://x:4222", "'url'"),
    ("config.stages.fetcher.listen=0.0.0.0:80", "'listen'"),
    ("config.stages.fetcher.replicas=4", "'replicas'"),
    # What does not go together.
    ("nats.enabled=false", "choose one broker"),
    ("broker.urls={nats://x:4222}", "choose one broker"),
    ("broker.urls={http://x}", "/broker/urls"),
    ("broker.urls={nats://u:p@x:4222}", "/broker/urls"),
    ("autoscaling.fetcher.kind=hpa,autoscaling.fetcher.minReplicas=30", "maxReplicas"),
    ("nats.enabled=false,broker.urls={nats://x:4222},autoscaling.parser.kind=keda", "monitoringEndpoint"),
]
# What is written in other ways, and has to pass.
ACCEPTED = [
    "config.politeness.delay=0s",
    "config.politeness.delay=1h",
    "config.politeness.delay=1500ms",
    "config.stages.dedup.filter_urls=1000000000",
    "config.limits.body_bytes_max=1048576",
    "config.network.nameservers={127.0.0.1:53}",
    "fetcher.replicas=1000",
    "fetcher.replicas=null",
    "fullnameOverride=crawl-2",
]


def schema():
    return json.loads((CHART / "values.schema.json").read_text())


def refused(helm):
    """Returns how many were."""
    for assignment, named in REFUSED:
        why = helm.refusal("--set", assignment)
        must(why is not None, f"{assignment} is not refused")
        must(named in why, f"{assignment}: the refusal does not name {named}: {why}")
    return len(REFUSED)


def accepted(helm):
    for assignment in ACCEPTED:
        why = helm.refusal("--set", assignment)
        must(why is None, f"{assignment} is refused: {why}")


def described(node=None, path="", root=None):
    """Every value has a description."""
    root = root or schema()
    node = node or root
    if "$ref" in node:
        node = root["definitions"][node["$ref"].rsplit("/", 1)[1]]
    must(not path or node.get("description"), f"{path} has no description")
    for name, below in node.get("properties", {}).items():
        described(below, f"{path}.{name}".lstrip("."), root)


def shipped_is_accepted():
    """The part `config` takes what pipeline.yaml ships, without what the chart sets. Both are made of the same fields."""
    config = schema()["properties"]["config"]
    tree = known(yaml.safe_load((ROOT / "pipeline.yaml").read_text()), config)
    errors = [f"{'.'.join(map(str, e.path))}: {e.message}" for e in jsonschema.Draft7Validator(config).iter_errors(tree)]
    must(not errors, f"what pipeline.yaml ships is refused: {errors}")
    must(tree["stages"]["scheduler"]["policy"] == "breadth-first", "the schema knows no keys")


def known(tree, node):
    """A configuration without what the schema does not name."""
    properties = node.get("properties")
    if properties is None:
        return tree
    return {name: known(value, properties[name]) for name, value in tree.items() if name in properties}


def defaults_are_all():
    """values.yaml and the schema have the same values."""

    def compare(values, node, path):
        if "$ref" in node:
            node = root["definitions"][node["$ref"].rsplit("/", 1)[1]]
        properties = node.get("properties")
        if properties is None or path == "config":
            return
        # What a stage may override of the values for all, and what is of no chart.
        optional = {"nodeSelector", "tolerations", "affinity", "global"}
        missing = set(properties) - set(values) - optional
        must(not missing, f"values.yaml has no {path}: {missing}")
        for name, value in values.items():
            must(name in properties, f"the schema has no {path}.{name}")
            if isinstance(value, dict):
                compare(value, properties[name], f"{path}.{name}".lstrip("."))

    root = schema()
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), root, "")


def checksums(helm):
    """Pods start again when the configuration changes, and not when a number of instances does."""

    def checksum(*sets):
        documents = helm.template(*helm.arguments(sets=sets))
        [fetcher] = [d for d in of_kind(documents, "Deployment") if d["metadata"]["name"].endswith("-fetcher")]
        return fetcher["spec"]["template"]["metadata"]["annotations"]["checksum/config"]

    before = checksum()
    must(checksum("config.politeness.delay=2s") != before, "another delay does not restart pods")
    must(checksum("archiver.replicas=1") != before, "parsers do not learn of an archiver")
    must(checksum("fetcher.replicas=4", "dedup.replicas=3") == before, "a number of instances restarts pods")
    must(checksum("archiver.replicas=1") == checksum("archiver.replicas=3"), "a number of archivers restarts pods")


def numbers(helm):
    """Without a number `kubectl scale` decides; an archiver that is not wanted leaves no trace."""

    def of(documents, component):
        return [d for d in of_kind(documents, "Deployment", "StatefulSet") if d["metadata"]["name"] == f"crawl-{component}"]

    documents = helm.template()
    for component in ("host-splitter", "resolver", "fetcher", "parser", "dedup", "scheduler"):
        [workload] = of(documents, component)
        must("replicas" not in workload["spec"], f"{component} has a number")
    archivers = [d for d in documents if "archiver" in d["metadata"]["name"]]
    must(not archivers, f"without archivers there are {len(archivers)} objects of them")
    documents = helm.template(*helm.arguments(sets=["fetcher.replicas=4", "archiver.replicas=2"]))
    must(of(documents, "fetcher")[0]["spec"]["replicas"] == 4, "the number of fetchers is not rendered")
    must(of(documents, "archiver")[0]["spec"]["replicas"] == 2, "the number of archivers is not rendered")
    must(yaml.safe_load(pipeline_of(documents))["stages"]["archiver"]["replicas"] == 2, "stages do not know of archivers")


def large_numbers_stay_whole(helm):
    """helm must not write 1000000000 as 1e+09, which the programs would refuse."""
    text = pipeline_of(helm.template("--set", "config.stages.dedup.filter_urls=1000000000"))
    must("filter_urls: 1000000000\n" in text, text)


def notes(helm):
    """The notes show what an operator does every day."""
    for sets in ([], ["nats.service.type=LoadBalancer"], ["nats.enabled=false", "broker.urls={tls://x:4222}"],
                 ["nats.enabled=false", "broker.existingSecret=b"], ["broker.credentials.existingSecret=u"]):
        done = helm.run("install", "crawl", str(CHART), "--dry-run=client", *helm.arguments(sets=sets))
        if done.returncode != 0:
            raise Failed(done.stderr)
        text = done.stdout.split("NOTES:", 1)[1]
        for word in ("rhumb inject", "rhumb tap", "rhumb status", "kubectl -n default scale", "helm test", "NOT CRAWLING YET"):
            must(word in text, f"{sets}: the notes do not show '{word}'")
