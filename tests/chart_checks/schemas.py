"""Schemas of others: Kubernetes (strict), KEDA, the Prometheus operator; and the scalers' metadata, for which there is none."""

import json
import pathlib
import subprocess

import kubernetes_validate

from helm import name_of, of_kind
from report import Failed, must

OLDEST = (1, 31)
CUSTOM = ("ScaledObject", "PodMonitor", "ServiceMonitor", "PrometheusRule")
# What KEDA's scalers read: required and optional keys of `metadata`.
SCALERS = {
    "metrics-api": (
        {"url", "valueLocation", "targetValue"},
        {"activationTargetValue", "format", "unsafeSsl", "aggregationType", "authMode"},
    ),
    "nats-jetstream": (
        {"natsServerMonitoringEndpoint", "account", "stream", "consumer"},
        {"lagThreshold", "activationLagThreshold", "useHttps"},
    ),
}
VALIDATE = """
import { readFileSync } from 'fs';
const objects = JSON.parse(readFileSync(0));
const folders = { 'keda.sh/v1alpha1': '@kubernetes-models/keda', 'monitoring.coreos.com/v1': '@kubernetes-models/prometheus-operator' };
for (const object of objects) {
  const module = await import(`${folders[object.apiVersion]}/${object.apiVersion}/${object.kind}`);
  try { new module[object.kind](object).validate(); }
  catch (error) { console.log(`${object.kind}/${object.metadata.name}: ${error.message}`); }
}
"""


def versions():
    """The versions of Kubernetes that there are schemas for, from the oldest that counts."""
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    found = {tuple(map(int, path.name[1:].split(".")[:2])) for path in folder.glob("v*-strict")}
    return sorted(version for version in found if version >= OLDEST)


def kubernetes(documents, version):
    for document in documents:
        if document["kind"] in CUSTOM:
            continue
        try:
            kubernetes_validate.validate(document, ".".join(map(str, version)), strict=True)
        except kubernetes_validate.ValidationError as error:
            path = ".".join(map(str, error.path))
            raise Failed(f"{name_of(document)}: {path}: {error.message}") from error


def custom(documents, tools):
    """KEDA's and the operator's own types."""
    objects = of_kind(documents, *CUSTOM)
    script = pathlib.Path(tools) / "validate.mjs"
    script.write_text(VALIDATE)
    done = subprocess.run(["node", str(script)], input=json.dumps(objects), capture_output=True, text=True, timeout=60)
    must(done.returncode == 0 and not done.stdout, done.stdout + done.stderr[-400:])
    return len(objects)


def scalers(documents):
    """Returns how many there are."""
    found = 0
    for document in of_kind(documents, "ScaledObject"):
        for trigger in document["spec"]["triggers"]:
            must(set(trigger) <= {"type", "metricType", "metadata", "name", "authenticationRef"}, f"{set(trigger)}")
            required, optional = SCALERS[trigger["type"]]
            keys, name = set(trigger["metadata"]), name_of(document)
            must(required <= keys, f"{name}: {trigger['type']} lacks {required - keys}")
            must(keys <= required | optional, f"{name}: {trigger['type']} knows no {keys - required - optional}")
            for key, value in trigger["metadata"].items():
                must(isinstance(value, str) and value, f"{name}: {key} is {value!r}, and has to be a text")
            found += 1
    return found
