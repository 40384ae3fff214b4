"""Judges an archive by itself: what owners say of the use of their pages, and whose bodies are there.

    reader.py judge ARCHIVE            by URL: what this reader understands, what the archive records, whether a body is there
    reader.py find PATTERN PATH...     what matches in the files, and in what is packed in those that are packed

Written from the specifications, with the standard library alone: nothing is shared with the programs that it judges.
"""

import datetime
import email.utils
import glob
import gzip
import html.parser
import json
import os
import re
import sys

AGENT = "rhumb"
PURPOSES = ["search", "ai-input", "ai-train", "archive"]
RANK = {"unsaid": 0, "allowed": 1, "refused": 2}


def records(archive):
    """Fields and block of each record, file by file."""
    for name in sorted(glob.glob(f"{archive}/**/*.warc.gz*", recursive=True)):
        with gzip.open(name) as file:
            while line := file.readline():
                if not line.startswith(b"WARC/"):
                    continue
                fields = {}
                while (line := file.readline().strip()):
                    key, value = line.decode("utf-8", "replace").split(":", 1)
                    fields[key.lower()] = value.strip()
                yield fields, file.read(int(fields["content-length"]))


def parsed(response):
    """Headers, in lower case, and body of an HTTP response."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = head.decode("utf-8", "replace").split("\r\n")[1:]
    pairs = [line.split(":", 1) for line in lines if ":" in line]
    return [(key.strip().lower(), value.strip()) for key, value in pairs], body


class Stances(dict):
    """The strictest that was said of each purpose."""

    def __init__(self):
        super().__init__({purpose: "unsaid" for purpose in PURPOSES})

    def say(self, purpose, stance):
        if RANK[stance] > RANK[self[purpose]]:
            self[purpose] = stance


def content_signal(stances, value):
    for part in value.split(","):
        key, equals, said = (text.strip().lower() for text in part.partition("="))
        if equals and key in PURPOSES[:3] and said in ("yes", "no"):
            stances.say(key, "allowed" if said == "yes" else "refused")


MEMBER = re.compile(r'([a-z*][a-z0-9_.*-]*)(?:=([A-Za-z*][^\s,;"()]*|\?[01]|"[^"]*"|-?[0-9]+))?((?:;\s*[a-z][^,;]*)*)')


def content_usage(stances, value):
    labels = {"search": "search", "ai-use": "ai-input", "train-ai": "ai-train"}
    members = {}
    for part in value.split(","):
        member = MEMBER.fullmatch(part.strip(" \t"))
        if not member:
            return
        members[member[1]] = member[2]
    for label, said in members.items():
        if label in labels and said in ("y", "n"):
            stances.say(labels[label], "allowed" if said == "y" else "refused")


def reservation(stances, value):
    if value.strip() in ("0", "1"):
        for purpose in ("ai-input", "ai-train"):
            stances.say(purpose, "refused" if value.strip() == "1" else "allowed")


def directives(value, may_address):
    """Name and value of each directive that is for us."""
    ours = True
    while value:
        if found := re.match(r"\s*(unavailable_after)\s*:\s*((?:[A-Za-z]+,)?[^,]*),?", value, re.I):
            if ours:
                yield found[1].lower(), found[2].strip()
        elif found := re.match(r"\s*(max-[a-z-]+)\s*:\s*([^\s,]*)\s*,?", value, re.I):
            if ours:
                yield found[1].lower(), found[2]
        elif may_address and (found := re.match(r"\s*([^\s:,]+)\s*:", value)):
            ours = found[1].lower() == AGENT
        else:
            found = re.match(r"\s*([^\s,]*)[\s,]?", value)
            if ours and found[1]:
                yield found[1].lower(), None
        value = value[found.end():]


def is_over(date, now):
    for read in (email.utils.parsedate_to_datetime, datetime.datetime.fromisoformat):
        try:
            moment = read(date)
        except (TypeError, ValueError):
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        return moment <= now
    return False


def robots_tag(stances, value, now, is_image=False, may_address=True):
    for name, said in directives(value, may_address):
        if name in ("noindex", "none") or name == "unavailable_after" and is_over(said, now):
            stances.say("search", "refused")
        elif name in ("index", "all"):
            stances.say("search", "allowed")
        elif name in ("noarchive", "nocache"):
            stances.say("archive", "refused")
        elif name == "archive":
            stances.say("archive", "allowed")
        elif name == "nosnippet" or (name, said) == ("max-snippet", "0"):
            stances.say("ai-input", "refused")
        elif name == "noai" or name == "noimageai" and is_image:
            stances.say("ai-input", "refused")
            stances.say("ai-train", "refused")


class Metas(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        if tag == "meta":
            attributes = dict(reversed(attributes))
            self.found.append((attributes.get("name") or "", attributes.get("content") or ""))


def robots_lines(text):
    """Records of robots.txt that are ours: those before all groups, and those of our groups."""
    groups, agents, begins = [], [], False
    everybody = []
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.split("#")[0].partition(":"))
        key = key.lower()
        if not colon:
            continue
        if key == "user-agent":
            if not begins:
                agents = []
                groups.append((agents, []))
            agents.append(value.lower())
            begins = True
        elif groups:
            groups[-1][1].append((key, value))
            if key in ("allow", "disallow"):
                begins = False
        elif key == "content-signal":
            everybody.append((key, value))
    ours = [lines for agents, lines in groups if AGENT in agents]
    ours = ours or [lines for agents, lines in groups if "*" in agents]
    return everybody + sum(ours, [])


def robots_txt(stances, text, path):
    usages = []
    for key, value in robots_lines(text):
        if key == "content-signal":
            content_signal(stances, value)
        elif key == "content-usage":
            pattern, preference = value.split(None, 1) if value.startswith("/") else ("", value)
            regex = re.escape(pattern).replace(r"\*", ".*")
            regex = regex[:-2] + "$" if regex.endswith(r"\$") else regex
            if re.match(regex, path):
                usages.append((len(pattern), preference))
    longest = max((length for length, _ in usages), default=0)
    for length, preference in usages:
        if length == longest:
            content_usage(stances, preference)


def judged(url, response, rules, date):
    headers, body = parsed(response)
    stances = Stances()
    now = datetime.datetime.fromisoformat(date)
    server = "/".join(url.split("/")[:3])
    robots_txt(stances, rules.get(server, ""), url[len(server):])
    values = lambda name: [value for key, value in headers if key == name]
    kind = (values("content-type") or [""])[-1].split(";")[0].strip().lower()
    for value in values("content-signal"):
        content_signal(stances, value)
    if values("content-usage"):
        content_usage(stances, ", ".join(values("content-usage")))
    for value in values("tdm-reservation"):
        reservation(stances, value)
    for value in values("x-robots-tag"):
        robots_tag(stances, value, now, is_image=kind.startswith("image/"))
    if kind in ("text/html", "application/xhtml+xml"):
        metas = Metas()
        metas.feed(body.decode("utf-8", "replace"))
        for name, content in metas.found:
            name = name.strip().lower()
            if name in ("robots", AGENT):
                robots_tag(stances, content, now, may_address=False)
            elif name == "tdm-reservation":
                reservation(stances, content)
    return stances


def judge(archive):
    responses, metadata, rules = {}, {}, {}
    for fields, block in records(archive):
        url = fields.get("warc-target-uri")
        if fields["warc-type"] in ("response", "revisit"):
            # A page that was fetched once more, after a kill, refers to what is there.
            if fields["warc-type"] == "response" or url not in responses:
                responses[url] = (fields, block)
            if url.endswith("/robots.txt"):
                rules[url[: -len("/robots.txt")]] = parsed(block)[1].decode("utf-8", "replace")
        elif fields["warc-type"] == "metadata":
            lines = [line.partition(": ") for line in block.decode("utf-8").splitlines()]
            metadata[url] = {key: value for key, _, value in lines}
    for url, (fields, block) in responses.items():
        about = metadata[url]
        recorded = about.get("usage")
        print(json.dumps({
            "url": url,
            "judged": judged(url, block, rules, fields["warc-date"]),
            "recorded": dict(one.split("=") for one in recorded.split(", ")) if recorded else None,
            "version": about.get("usage-version", ""),
            "verdict": about.get("usage-verdict", ""),
            "refused": about.get("usage-refused", ""),
            "body": len(parsed(block)[1]),
            "truncated": fields.get("warc-truncated", ""),
        }))


def find(pattern, paths):
    found = set()
    for path in paths:
        inside = glob.glob(f"{path}/**/*", recursive=True) if os.path.isdir(path) else [path]
        for name in filter(os.path.isfile, inside):
            with (gzip.open(name) if ".warc.gz" in name else open(name, "rb")) as file:
                found.update(re.findall(pattern.encode(), file.read()))
    print(json.dumps(sorted(match.decode() for match in found)))


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        judge(sys.argv[2])
    else:
        find(sys.argv[2], sys.argv[3:])
