"""The recipe of the image, the compose file, the documentation."""

import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tomllib

import compose_spec
import yaml

from helm import CHART, ROOT
from programs import STAGES, flags_exist
from report import Failed, must

DOCKER = ROOT / "deploy/docker"
COMPOSE = DOCKER / "compose.yaml"


def hadolint(tools):
    done = subprocess.run([f"{tools}/venv/bin/hadolint", str(DOCKER / "Dockerfile")], capture_output=True, text=True, timeout=60)
    must(done.returncode == 0, done.stdout + done.stderr)


def versions_agree():
    """Chart, image and workspace have one version."""
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    must(chart["appVersion"] == workspace, f"appVersion is {chart['appVersion']}, the workspace's {workspace}")
    recipe = (DOCKER / "Dockerfile").read_text()
    must(f"ARG VERSION={workspace}\n" in recipe, "the Dockerfile has another version")
    must(f"rhumb:{workspace}}}" in COMPOSE.read_text(), "the compose file has another version")


def image_has_all_programs(chart_programs):
    recipe = (DOCKER / "Dockerfile").read_text()
    copied = set(re.search(r"for program in (.*?); do", recipe).group(1).split())
    must(copied == {"rhumb", *STAGES}, f"the image has {copied}")
    must(chart_programs <= copied, f"the chart runs {chart_programs - copied}")
    manifests = [ROOT / "deploy/rhumb/Cargo.toml", ROOT / "stages/programs/Cargo.toml"]
    packages = {}
    for manifest in map(lambda path: tomllib.loads(path.read_text()), manifests):
        packages[manifest["package"]["name"]] = {program["name"] for program in manifest["bin"]}
    built = set(re.findall(r" -p ([\w-]+)", recipe))
    must(built == set(packages), f"the image builds {built}")
    must(set.union(*packages.values()) == copied, "what is built is not what is copied")
    last = recipe.split("\nFROM ")[-1]
    must(last.startswith("scratch") and "USER 65532:65532" in last and "RUN" not in last, "the image has a shell or root")
    must("--locked" in recipe, "the build does not follow Cargo.lock")


def context_is_small():
    """What the recipe copies is in the context, and what is large is not."""
    ignored = (ROOT / ".dockerignore").read_text().split()
    for needed in ("Cargo.toml", "Cargo.lock", "pipeline.yaml", "LICENSE-MIT"):
        must(f"!{needed}" in ignored, f".dockerignore leaves {needed} out")
    # Cargo reads the manifests of all members, whatever it builds.
    for member in tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]:
        folders = [member, *map(str, pathlib.PurePath(member).parents)]
        must(any(f"!{folder}" in ignored for folder in folders), f".dockerignore leaves {member} out")
    must("*" in ignored and "**/target" in ignored, ".dockerignore lets everything in")


def interpolated(text, variables):
    """As compose does it, for the forms ${NAME:-default} and ${NAME:?message}."""

    def value(found):
        name, kind, rest = found.groups()
        if name in variables:
            return variables[name]
        if kind == ":-":
            return rest
        raise Failed(f"{name} is not set: {rest}")

    return re.sub(r"\$\{(\w+)(:[-?])([^}]*)\}", value, text)


def compose():
    """The compose file by the compose specification, strictly; and by docker compose itself where it is installed."""
    text = interpolated(COMPOSE.read_text(), {"RHUMB_CONTACT": "https://example.org/bot"})
    tree = yaml.safe_load(text)
    # Written out again: this reader of the specification does not know YAML's merge keys.
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(tree))
    if shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        variables = os.environ | {"RHUMB_CONTACT": "https://example.org/bot"}
        done = subprocess.run(["docker", "compose", "-f", str(COMPOSE), "config", "-q"], env=variables, capture_output=True, text=True)
        must(done.returncode == 0, done.stderr)
    return tree


def compose_asks_for_a_contact():
    try:
        interpolated(COMPOSE.read_text(), {})
    except Failed as error:
        must("RHUMB_CONTACT" in str(error), str(error))
        return
    raise Failed("without a contact the compose file is taken")


def compose_runs_everything(tree, programs):
    services = tree["services"]
    must(set(services) == {"nats", "init", "conductor", "prometheus", "grafana", *STAGES}, f"services {set(services)}")
    for name in ("init", "conductor", *STAGES):
        service = services[name]
        flags_exist(service["command"], programs, f"compose {name}")
        must(service["read_only"] and service["cap_drop"] == ["ALL"] and service["user"] == "65532:65532", f"{name} is confined")
        waits = service["depends_on"].get("init", {}).get("condition")
        must(name == "init" or waits == "service_completed_successfully", f"{name} does not wait for init")
    for name in ("fetcher", "parser", "resolver", "host-splitter"):
        service = services[name]
        must("container_name" not in service and "ports" not in service, f"{name} cannot be scaled")
        must(service["command"][-2:] == ["--instance", "auto"], f"{name} has a fixed number")
    for name in ("dedup", "scheduler", "archiver", "nats"):
        volume = services[name]["volumes"][0].split(":")[0]
        must(volume in tree["volumes"], f"{name} keeps nothing")


def compose_mounts_what_there_is(tree):
    for name, service in tree["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                must((DOCKER / source).is_file(), f"{name} mounts {source}, which is not there")
        for config in service.get("configs", []):
            must(config["source"] in tree["configs"], f"{name}: no config {config['source']}")


def compose_environments(tree):
    """By stage: the environment that configures it."""
    found = {}
    for stage in STAGES:
        variables = tree["services"][stage]["environment"]
        found[stage] = {name: str(value) for name, value in variables.items() if name.startswith("RHUMB__")}
    return found


def certificate():
    """A certificate in PEM."""
    der = (ROOT / "shared/bus/tests/certificate/certificate.der").read_bytes()
    return ssl.DER_cert_to_PEM_cert(der)


def readme_has_every_value():
    text = (CHART / "README.md").read_text()
    for name in yaml.safe_load((CHART / "values.yaml").read_text()):
        must(f"`{name}" in text, f"the chart's README does not say what {name} is")


def pages_are_linked():
    """Relative links of the chart's pages lead somewhere."""
    for page in (CHART / "README.md", ROOT / "docs/kubernetes.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            must(pathlib.Path(page.parent / target).exists(), f"{page.name} links {target}, which is not there")
