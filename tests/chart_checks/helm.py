"""Runs helm: the chart rendered for the defaults, the examples and further values."""

import pathlib
import subprocess

import yaml

from report import Failed, must

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/kubernetes/rhumb"
EXAMPLES = sorted((ROOT / "deploy/kubernetes/examples").glob("*.yaml"))

# Further sets of values: what no example has.
FURTHER = {
    "three nodes of NATS, apart": ["nats.replicas=3"],
    "own NATS with users and TLS": [
        "broker.credentials.existingSecret=users",
        "broker.ca.existingSecret=ca",
        "nats.tls.existingSecret=tls",
        "nats.service.type=LoadBalancer",
    ],
    "a broker's URL in a Secret": ["nats.enabled=false", "broker.existingSecret=broker"],
    "autoscaling by CPU": [f"autoscaling.{stage}.kind=hpa" for stage in ("hostSplitter", "resolver", "fetcher", "parser")],
    "KEDA with an external broker": [
        "nats.enabled=false",
        "broker.urls={nats://broker.example:4222}",
        "broker.monitoringEndpoint=broker.example:8222",
        "autoscaling.fetcher.kind=keda",
        "autoscaling.parser.kind=keda",
        "config.stages.fetcher.connections=200",
    ],
    "what pods may be given": [
        "extraEnv[0].name=RHUMB__NETWORK__PROXY",
        "extraEnv[0].valueFrom.secretKeyRef.name=proxy",
        "extraEnv[0].valueFrom.secretKeyRef.key=url",
        "podLabels.team=crawl",
        "podAnnotations.note=x",
        "nodeSelector.disk=fast",
        "priorityClassName=high",
        "image.pullSecrets[0].name=pull",
        "archiver.replicas=2",
    ],
}


class Helm:
    def __init__(self, tools):
        self.program = str(pathlib.Path(tools) / "helm")

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, timeout=60)

    def arguments(self, values=(), sets=()):
        made = [argument for file in values for argument in ("-f", str(file))]
        return made + [argument for assignment in sets for argument in ("--set", assignment)]

    def lint(self, *arguments):
        done = self.run("lint", "--strict", str(CHART), *arguments)
        must(done.returncode == 0, done.stdout + done.stderr)

    def template(self, *arguments, release="crawl"):
        """All objects of a rendering."""
        done = self.run("template", release, str(CHART), "--namespace", "web", *arguments)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    def refusal(self, *arguments):
        """Why values are refused; none when they are not."""
        done = self.run("template", "crawl", str(CHART), *arguments)
        return done.stderr if done.returncode != 0 else None


def renderings(helm):
    """By name: the arguments for helm."""
    every = {"the defaults": []}
    every |= {f"examples/{file.name}": helm.arguments([file]) for file in EXAMPLES}
    every |= {name: helm.arguments(sets=sets) for name, sets in FURTHER.items()}
    return every


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def pod_specs(documents):
    """Of everything that makes pods: the object, the labels of its pods, their specification."""
    for document in documents:
        if document["kind"] == "Pod":
            yield document, document["metadata"].get("labels", {}), document["spec"]
        elif document["kind"] in ("Deployment", "StatefulSet", "Job"):
            template = document["spec"]["template"]
            yield document, template["metadata"].get("labels", {}), template["spec"]


def name_of(document):
    return f"{document['kind']}/{document['metadata']['name']}"


def pipeline_of(documents):
    """The pipeline.yaml of a rendering, as text."""
    for document in of_kind(documents, "ConfigMap"):
        if "pipeline.yaml" in document["data"]:
            return document["data"]["pipeline.yaml"]
    raise Failed("no ConfigMap has pipeline.yaml")
