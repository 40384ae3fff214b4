"""The schema of the chart's value `config`, made from pipeline.yaml.

In: pipeline.yaml with its comments, which end with the accepted range. Out: a JSON schema in which every key has type,
description and, where the comment has one, its range. Ranges of durations and sizes become patterns, so that helm refuses
what the programs would refuse. Keys that the chart sets are left out, and therefore refused.
"""

import json
import pathlib
import re

import yaml

# What the chart sets.
OWN = [
    r"data",
    r"broker\.(url|credentials|user|ca)",
    r"conductor\.listen",
    r"stages\.[^.]+\.(listen|replicas)",
]
# What an operator of a cluster may choose by name. The checks see to it that each is in the comment of its key.
CHOICES = {
    r"durability": ["process", "power"],
    r"stages\.archiver\.format": ["warc.gz", "warc.zst"],
    r"edges\..+\.storage": ["file", "memory"],
    r"scope\.follow": ["host", "domain", "any"],
    r"limits\.over_budget": ["end", "wait"],
    r"stages\..+\.cache\.policy": ["clock", "lru", "random", "static", "none"],
    r"stages\.dedup\.store": ["disk", "memory"],
    r"stages\.scheduler\.policy": ["breadth-first", "performance", "quality", "capacity"],
    r"stages\.scheduler\.quality": ["depth", "flow", "links", "opic", "table"],
    r"stages\.parser\.nofollow": ["obey", "ignore"],
    r"log\.format": ["human", "json"],
}
DURATION_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SIZE_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
DURATION = r"[0-9]+(?:ms|s|m|h|d)"
SIZE = r"[0-9]+(?:KiB|MiB|GiB|TiB)"


class Key:
    """A key of pipeline.yaml: its path, its default (None for a section) and its comment."""

    def __init__(self, path, comment):
        self.path, self.comment, self.default, self.sections = path, comment, None, {}


def keys(text):
    """The keys of pipeline.yaml as a tree, with their comments."""
    root, stack, last = Key("", ""), [], None
    stack.append((-1, root))
    for line in text.splitlines():
        found = re.match(r"^( *)([A-Za-z][\w-]*):(?: +([^#]*?))?(?:\s+# ?(.*))?$", line)
        comment = re.match(r"^\s+# ?(.*)$", line)
        if found:
            indent, name, _, words = found.groups()
            while stack[-1][0] >= len(indent):
                stack.pop()
            parent = stack[-1][1]
            last = Key(f"{parent.path}.{name}".lstrip("."), words or "")
            parent.sections[name] = last
            stack.append((len(indent), last))
        elif comment and last:
            last.comment = f"{last.comment} {comment.group(1)}".strip()
    defaults(root, yaml.safe_load(text))
    inherit(root)
    return root


def defaults(key, tree):
    for name, below in key.sections.items():
        if below.sections:
            defaults(below, tree[name])
        else:
            below.default = tree[name]


def leaves(key):
    for below in key.sections.values():
        yield from leaves(below) if below.sections else [below]


def inherit(root):
    """A key without a comment, or with one that says 'as of …', has that of the first key of its name in its section."""
    first = {}
    for leaf in leaves(root):
        name = leaf.path.split(".", 1)[0], leaf.path.rsplit(".", 1)[-1]
        if leaf.comment and not leaf.comment.startswith("as of"):
            first.setdefault(name, leaf.comment)
        else:
            leaf.comment = first.get(name, leaf.comment)


def digits(low, high):
    """A regular expression for the whole numbers from low to high."""
    parts = []
    while low <= high:
        # The largest block of numbers from `low` on that differ only in their last digits.
        zeros = 0
        while low % 10 ** (zeros + 1) == 0 and low + 10 ** (zeros + 1) - 1 <= high and low > 0:
            zeros += 1
        head, step = low // 10**zeros, 10**zeros
        top = head
        while top % 10 < 9 and (top + 1) * step + step - 1 <= high:
            top += 1
        lead = str(head)[:-1]
        last = f"[{head % 10}-{top % 10}]" if top > head else str(head % 10)
        parts.append(lead + last + ("[0-9]" if zeros else "") + (f"{{{zeros}}}" if zeros > 1 else ""))
        low = (top + 1) * step
    return "|".join(parts)


def amount(text, units):
    number, unit = re.match(r"^([0-9]+)([A-Za-z]*)$", text).groups()
    return int(number) * units[unit]


def pattern(low, high, units):
    """Of whole numbers with a unit: from low to high, counted in the smallest unit."""
    parts = []
    for unit, factor in units.items():
        first, last = -(-low // factor), high // factor
        if unit and first <= last:
            parts.append(f"(?:{digits(first, last)}){unit}")
    return f"^(?:{'|'.join(parts)})$"


def ends(leaf, kind, units):
    """The range of a duration or a size, in the smallest unit, if its comment ends with one."""
    found = re.search(rf"({kind}|[0-9]+)\.\.({kind})\s*$", leaf.comment)
    return found and tuple(amount(end, units) for end in found.groups())


def duration(leaf):
    found = ends(leaf, DURATION, DURATION_UNITS)
    return {"type": "string", "pattern": pattern(*found, DURATION_UNITS) if found else f"^{DURATION}$"}


def size(leaf):
    """A number of bytes, plain or with a suffix."""
    found = ends(leaf, SIZE, SIZE_UNITS)
    if not found:
        return {"anyOf": [{"type": "string", "pattern": f"^{SIZE}$"}, {"type": "integer", "minimum": 0}]}
    low, high = found
    plain = {"type": "integer", "minimum": low, "maximum": high}
    return {"anyOf": [{"type": "string", "pattern": pattern(low, high, SIZE_UNITS)}, plain]}


def limits(leaf):
    """Of a number."""
    found = re.search(r"([0-9.]+?)\.\.([0-9.]+)\s*$", leaf.comment)
    if not found:
        return {"minimum": 0}
    as_number = float if isinstance(leaf.default, float) else int
    return {"minimum": as_number(found.group(1)), "maximum": as_number(found.group(2))}


def of_leaf(leaf):
    default = leaf.default
    for path, choices in CHOICES.items():
        if re.fullmatch(path, leaf.path):
            return {"type": "string", "enum": choices}
    if isinstance(default, bool):
        return {"type": "boolean"}
    if leaf.path.endswith(("bytes_max", "bytes", "rate_min", "payload")) and not re.search("url_bytes_max$", leaf.path):
        return size(leaf)
    if isinstance(default, int):
        return {"type": "integer", **limits(leaf)}
    if isinstance(default, float):
        return {"type": "number", **limits(leaf)}
    if isinstance(default, list):
        return {"type": "array", "items": {"type": "object" if leaf.path == "politeness.groups" else "string"}}
    if isinstance(default, dict):
        return {"type": "object"}
    if re.fullmatch(DURATION, default):
        return duration(leaf)
    return {"type": "string"}


def of(key):
    """The schema of a section."""
    properties = {}
    for name, below in key.sections.items():
        if any(re.fullmatch(own, below.path) for own in OWN):
            continue
        if below.sections:
            section = of(below)
            # A section that is the chart's alone.
            if section["properties"]:
                properties[name] = section
        else:
            properties[name] = {"description": below.comment or f"See pipeline.yaml: {below.path}.", **of_leaf(below)}
    return {
        "type": "object",
        "additionalProperties": False,
        "description": key.comment or (f"See pipeline.yaml: {key.path}." if key.path else ""),
        "properties": properties,
    }


def schema(text):
    """The schema of `config`."""
    made = of(keys(text))
    made["description"] = "Any part of pipeline.yaml, of which this is made. What the chart itself sets is refused."
    made["properties"]["crawl"] = {
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]*$",
        "description": "Name of the crawl, unique at its broker; empty: the release's name.",
    }
    edges(made["properties"]["edges"], made["properties"]["edges"]["properties"]["defaults"]["properties"])
    return made


def edges(section, settings):
    """Below `edges`: each stream may say all that the defaults say. Every group may have further edges: of stages beside the
    pipeline, and those that earlier versions of pipeline.yaml named though nothing could be said of them."""
    section["additionalProperties"] = {"type": "object"}
    for name, below in section["properties"].items():
        if set(below.get("properties", {})) <= set(settings):
            # Earlier versions named them, too. What they may say there is for the programs to check.
            fixed = {key: {"description": "Fixed; leave it out.", "type": "string"} for key in ["subject", "retention"]}
            below["properties"] = {**settings, **({} if name == "defaults" else fixed)}
            below["additionalProperties"] = False
        else:
            edges(below, settings)


def write():
    """Puts the schema of `config` into that of the chart's values."""
    root = pathlib.Path(__file__).resolve().parents[2]
    file = root / "deploy/kubernetes/rhumb/values.schema.json"
    values = json.loads(file.read_text())
    values["properties"]["config"] = schema((root / "pipeline.yaml").read_text())
    file.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write()
