"""The chart's commands on the programs: every program, flag and key exists."""

import os
import pathlib
import re
import subprocess
import tempfile
import time

import yaml
from helm import name_of, pod_specs
from report import must

STAGES = tuple(yaml.safe_load((pathlib.Path(__file__).parents[2] / "pipeline.yaml").read_text())["stages"])
# A stage that has read its configuration waits for its broker for good; one that refuses it has ended long before.
PATIENCE_S = 3


class Programs:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.helps = {}

    def path(self, name):
        path = self.folder / name
        must(os.access(path, os.X_OK), f"there is no program {name} in {self.folder}")
        return str(path)

    def help(self, command):
        """`--help` of a program, or of a subcommand of rhumb."""
        key = tuple(command)
        if key not in self.helps:
            done = subprocess.run([self.path(command[0]), *command[1:], "--help"], capture_output=True, text=True, timeout=20)
            must(done.returncode == 0, f"{' '.join(command)} --help: {done.stderr}")
            self.helps[key] = done.stdout
        return self.helps[key]


def command_of(words):
    """The program, with its subcommand if it is rhumb's."""
    return words[:2] if words[0] == "rhumb" else words[:1]


def flags_exist(words, programs, name):
    """Every flag of a command line is in its help."""
    known = programs.help(command_of(words))
    for word in words[len(command_of(words)) :]:
        if word.startswith("-"):
            flag = word.split("=", 1)[0]
            must(re.search(rf"{re.escape(flag)}[\s,=<\[]", known), f"{name}: {' '.join(command_of(words))} knows no {flag}")


def commands_exist(documents, programs):
    for document, labels, spec in pod_specs(documents):
        container = spec["containers"][0]
        component = labels["app.kubernetes.io/component"]
        if component == "nats":
            continue
        words = container["command"] + container.get("args", [])
        flags_exist(words, programs, name_of(document))
        if component in STAGES:
            must(container["command"] == [component], f"{name_of(document)} runs {container['command']}")
            must(words[-2:] == ["--instance", "auto"], f"{name_of(document)} takes its number by itself")
            must("auto" in programs.help([component]), f"{component} knows no --instance auto")


def environment(**more):
    """Of a program that is to reach nothing but what it is told."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RHUMB__")}
    return kept | more


def configurations_load(named, programs):
    """Each configuration (by name: text, environment, stages) is read by programs, which then wait for the broker."""
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for number, (name, (text, more, stages)) in enumerate(named.items()):
            file = pathlib.Path(folder) / f"{number}.yaml"
            file.write_text(text)
            for stage in stages:
                key = stage.replace("-", "_").upper()
                own = {
                    "RHUMB__BROKER__URL": "nats://127.0.0.1:1",
                    "RHUMB__DATA": f"{folder}/{number}",
                    f"RHUMB__STAGES__{key}__LISTEN": "127.0.0.1:0",
                }
                command = [programs.path(stage), "--config", str(file), "--instance", "0"]
                process = subprocess.Popen(
                    command, env=environment(**{**more, **own}), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
                )
                running.append((f"{name}: {stage}", process))
        time.sleep(PATIENCE_S)
        ended = []
        for name, process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()
            else:
                ended.append(f"{name} ends with {process.returncode}: {process.communicate()[0].strip()[-400:]}")
        must(not ended, "; ".join(ended))


def refuses(text, programs, named):
    """A configuration that no program goes on with: exit code 2, and what it says last names the key."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "pipeline.yaml"
        file.write_text(text)
        command = [programs.path("fetcher"), "--config", str(file)]
        done = subprocess.run(command, env=environment(), cwd=folder, capture_output=True, text=True, timeout=20)
        must(done.returncode == 2, f"exit code {done.returncode}: {done.stderr}")
        must(named in done.stderr.strip().splitlines()[-1], f"the last line does not name {named}: {done.stderr}")
