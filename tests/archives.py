"""What tests/archives checks: crawls, kills the archiver, reads the archive back.

Arguments: the folder of the programs, the program warcio, a folder with web.json, where a synthetic web says where it is.
"""

import base64
import collections
import glob
import gzip
import hashlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import zstandard
from fastwarc.warc import ArchiveIterator, WarcRecordType

BINARIES, WARCIO, FOLDER = sys.argv[1:]
WEB = json.loads(open(f"{FOLDER}/web.json").readline())
DATA = f"{FOLDER}/data"
ARCHIVE = f"{DATA}/archive"
SETTINGS = {
    "network.nameservers": f'["{WEB["dns"]}"]',
    "network.allow_private_addresses": "true",
    "politeness.delay": "0s",
    "politeness.retry_after_max": "1s",
    "limits.request_timeout": "2s",
    "limits.first_answer_timeout": "500ms",
    "limits.body_bytes_max": "2MiB",
    "limits.decoded_bytes_max": "4MiB",
    "limits.query_parameters": "12",
    "limits.pages_per_host": "100",
    "url.drop_session_ids": "true",
    "stages.scheduler.retry_wait": "500ms",
    "stages.scheduler.retry_wait_max": "8s",
    "stages.scheduler.server_failures_max": "4",
    "stages.resolver.timeout": "1500ms",
    "stages.resolver.cache.temporary": "500ms",
    "stages.fetcher.accept_invalid_certificates": "true",
    "stages.archiver.replicas": "1",
    "stages.archiver.file_bytes_max": "4MiB",
}
FIELDS = ["WARC-Type", "WARC-Date", "WARC-Target-URI", "WARC-Truncated", "WARC-Payload-Digest"]
FIELDS += ["WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"]
# How often a body is asked for that a server gives only now and then.
TRIES = 8
# What a busy server sends.
BUSY = b"later\n"
failures = []


def check(holds, message):
    if not holds:
        failures.append(message)


def settings(more={}):
    return [word for key, value in {**SETTINGS, **more}.items() for word in ("--set", f"{key}={value}")]


def rhumb(*arguments):
    command = [f"{BINARIES}/rhumb", *arguments, "--data", DATA]
    return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout


def crawl():
    """Runs the crawl and kills its archiver three times; returns the summary."""
    command = [f"{BINARIES}/rhumb", "crawl", WEB["seeds"][0], "--data", DATA, "--scope", "any"]
    command += ["--summary", f"{FOLDER}/summary.json"]
    command += settings()
    with open(f"{FOLDER}/rhumb.log", "w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log)
        kills = 0
        try:
            end = time.monotonic() + 240
            while running.poll() is None:
                if time.monotonic() > end:
                    raise SystemExit("the crawl did not end within 240 s")
                time.sleep(0.5)
                status = json.loads(rhumb("status", "--json") or "{}")
                pids = [p["pid"] for p in status.get("processes", []) if p["stage"] == "archiver"]
                if pids and kills < 3 and status["pages"] >= 150 * (kills + 1):
                    os.kill(pids[0], signal.SIGKILL)
                    kills += 1
        finally:
            if running.poll() is None:
                running.terminate()
                running.wait(60)
    check(running.returncode == 0, f"rhumb ended with {running.returncode}: {open(f'{FOLDER}/rhumb.log').read()[-2000:]}")
    check(kills == 3, f"the archiver was killed {kills} times only")
    return json.load(open(f"{FOLDER}/summary.json"))


def served(url, request_head, at_most):
    """The body that the web serves for a request, without its transfer coding, up to so many bytes; its status."""
    parts = urlsplit(url)
    host = int(parts.hostname[1:5]) + 1
    address = (f"127.1.{host // 256}.{host % 256}", parts.port)
    lines = [line for line in request_head.split(b"\r\n") if line]
    with socket.create_connection(address, timeout=5) as stream:
        stream.sendall(b"\r\n".join(lines) + b"\r\nconnection: close\r\n\r\n")
        received = b""
        try:
            while piece := stream.recv(1 << 16):
                received += piece
                if len(received) > at_most + (1 << 20):
                    break
        except OSError:
            pass
    head, _, body = received.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1]) if head.startswith(b"HTTP/1.") else 0
    if b"transfer-encoding: chunked" in head.lower():
        body = b"".join(chunks(body))
    return status, body


def served_h2(url):
    """The same over HTTP/2, by curl."""
    parts = urlsplit(url)
    host = int(parts.hostname[1:5]) + 1
    resolve = f"{parts.hostname}:{parts.port}:127.1.{host // 256}.{host % 256}"
    command = ["curl", "-sk", "--http2", "--resolve", resolve, "-m", "5", "-w", "%{stderr}%{http_code}", url]
    got = subprocess.run(command, capture_output=True, timeout=10)
    return int(got.stderr or 0), got.stdout


def chunks(body):
    while body:
        size, found, rest = body.partition(b"\r\n")
        try:
            size = int(size.split(b";")[0], 16)
        except ValueError:
            return
        if not found or size == 0:
            return
        yield rest[:size]
        body = rest[size + 2 :]


def replay():
    """Replays the archive into Zstandard frames; returns the files."""
    data = f"{FOLDER}/replay"
    command = [f"{BINARIES}/rhumb", "crawl", WEB["seeds"][0], "--data", data, "--scope", "any", "--from", ARCHIVE]
    more = {"stages.archiver.format": "warc.zst"}
    replayed = subprocess.run([*command, *settings(more)], capture_output=True, text=True, timeout=120)
    check(replayed.returncode == 0, f"the replay ended with {replayed.returncode}: {replayed.stderr[-2000:]}")
    return sorted(glob.glob(f"{data}/archive/*.warc.zst"))


def plain_frames(path):
    """What all frames of a file hold; each that is indexed is checked by itself."""
    packed = open(path, "rb").read()
    for text in open(path.replace(".warc.zst", ".cdxj")).read().splitlines():
        entry = json.loads(text.split(" ", 2)[2])
        start, length = int(entry["offset"]), int(entry["length"])
        frame = zstandard.ZstdDecompressor().decompress(packed[start : start + length])
        check(f"WARC-Target-URI: {entry['url']}\r\n".encode() in frame, f"{path}: {entry['url']} is elsewhere")
    return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()


def check_replay(responses):
    """Each body of the replay is one that the archive has of the URL."""
    known, bodies = collections.defaultdict(set), body_of(responses)
    for url, _, _, body, headers in responses:
        known[url].add(bodies(url, body, headers))
    files = replay()
    _, replayed = read([io.BytesIO(plain_frames(path)) for path in files])
    bodies = body_of(replayed)
    for url, _, _, body, headers in replayed:
        check(bodies(url, body, headers) in known[url], f"{url}: the replay has another body")
    urls = {url for url, *_ in replayed}
    check(len(urls) > len(known) * 0.8, f"the replay has {len(urls)} URLs, the archive {len(known)}")
    return len(replayed)


def read_archive():
    """All records of all files of the crawl, as `read` returns them."""
    files = [open(path, "rb") for path in sorted(glob.glob(f"{ARCHIVE}/*.warc.gz"))]
    try:
        return read(files)
    finally:
        for file in files:
            file.close()


def read(streams):
    """The records of files: requests by URL, responses in order; each is checked by its digests."""
    requests, responses = {}, []
    for stream in streams:
        for record in ArchiveIterator(stream, parse_http=False):
            headers = {name: record.headers.get(name) for name in FIELDS}
            url = headers["WARC-Target-URI"]
            # A record has a digest of its block, or, if a body is in it, of that.
            if "WARC-Block-Digest" in record.headers:
                check(record.verify_block_digest(consume=False), f"fastwarc: digest of a block of {url}")
            else:
                check(record.record_type == WarcRecordType.response, f"{url}: a record without a digest")
            if record.record_type == WarcRecordType.request:
                requests[url] = record.reader.read()
            elif record.record_type in (WarcRecordType.response, WarcRecordType.revisit):
                head, _, body = record.reader.read().partition(b"\r\n\r\n")
                if record.record_type == WarcRecordType.response:
                    digest = "sha1:" + base64.b32encode(hashlib.sha1(body).digest()).decode()
                    check(headers["WARC-Payload-Digest"] == digest, f"fastwarc: digest of the payload of {url}")
                responses.append((url, int(head.split(b" ")[1]), head, body, headers))
    return requests, responses


def body_of(responses):
    """Says which body a response has: that of a revisit is in the record it refers to."""
    originals = {(url, headers["WARC-Date"]): body for url, _, _, body, headers in responses}

    def body_of(url, body, headers):
        if headers["WARC-Type"] != "revisit":
            return body
        refers = (headers["WARC-Refers-To-Target-URI"], headers["WARC-Refers-To-Date"])
        check(refers in originals, f"{url} refers to {refers}, which is not there")
        return originals.get(refers, b"")

    return body_of


def check_bodies(requests, responses):
    """Each body is what the web serves."""
    bodies = body_of(responses)
    compared, tls, renewed = 0, 0, set()
    for url, status, head, body, headers in responses:
        body = bodies(url, body, headers)
        if (status, body) == (503, BUSY):
            # A busy server sends nobody away from the same page for ever: what it sent cannot be had again.
            compared += 1
            continue
        ask = lambda: served_h2(url) if url.startswith("https:") else served(url, requests[url], len(body))
        for _ in range(TRIES):
            now, expected = ask()
            if now == status:
                break
        check(now == status, f"{url} was {status} and is {now}")
        if headers["WARC-Truncated"] and headers["WARC-Type"] == "response":
            # What follows may not have come before the connection broke.
            check(expected.startswith(body) or body.startswith(expected), f"{url}: another body")
        elif expected != body and ask()[1] != expected:
            # A page that is another for each request.
            renewed.add(urlsplit(url).hostname)
            continue
        else:
            check(expected == body, f"{url}: {len(body)} bytes are not the {len(expected)} that are served")
        compared += 1
        tls += url.startswith("https:")
    check(len(renewed) <= 1, f"pages of {renewed} are others for each request: those of sessions alone should be")
    return compared, tls


def check_indexes():
    lines = 0
    for path in glob.glob(f"{ARCHIVE}/*.cdxj"):
        texts = open(path).read().splitlines()
        check(texts == sorted(texts), f"{path} is not sorted")
        for text in texts:
            entry = json.loads(text.split(" ", 2)[2])
            with open(f"{ARCHIVE}/{entry['filename']}", "rb") as stream:
                stream.seek(int(entry["offset"]))
                member = gzip.decompress(stream.read(int(entry["length"])))
            check(f"WARC-Target-URI: {entry['url']}\r\n".encode() in member, f"{path}: {entry['url']} is elsewhere")
            check(entry["digest"].encode() in member, f"{path}: {entry['url']} has another digest")
            lines += 1
    return lines


def main():
    summary = crawl()
    check(summary["complete"], "the crawl is not complete")
    files = sorted(glob.glob(f"{ARCHIVE}/*.warc.gz"))
    check(not glob.glob(f"{ARCHIVE}/*.open"), "a file is not finished")
    warcio = subprocess.run([WARCIO, "check", *files], capture_output=True, text=True)
    check(warcio.returncode == 0, f"warcio check: {warcio.stdout[-2000:]}{warcio.stderr[-2000:]}")

    requests, responses = read_archive()
    compared, tls = check_bodies(requests, responses)
    indexed = check_indexes()
    check(indexed == len(responses), f"{indexed} lines of indexes for {len(responses)} responses")

    outcomes, log = collections.Counter(), {}
    for text in open(f"{ARCHIVE}/crawl.jsonl"):
        line = json.loads(text)
        outcomes[line["outcome"]] += 1
        check(line["url"] not in log, f"{line['url']} has two lines")
        log[line["url"]] = line
    expected = {name: n for name, n in summary["outcomes"].items() if n}
    check(dict(outcomes) == expected, f"crawl.jsonl has {dict(outcomes)}, the summary {expected}")
    archived = {url for url, *_ in responses}
    for url, line in log.items():
        if line["outcome"] in ("fetched", "redirected", "gone"):
            check(url in archived, f"{url} is {line['outcome']} and not in the archive")
    titles = sum(1 for line in log.values() if line["title"])
    check(titles > summary["pages"] // 2, f"{titles} titles of {summary['pages']} pages")

    frames = check_replay(responses)

    kinds = collections.Counter(headers["WARC-Type"] for *_, headers in responses)
    print(f"archives: {len(files)} files, {dict(kinds)}, {compared} bodies compared ({tls} of HTTP/2), {titles} titles")
    print(f"archives: {frames} responses of a replay in Zstandard frames")
    for failure in failures[:30]:
        print(f"failed: {failure}")
    print("1 passed, 0 failed" if not failures else f"0 passed, 1 failed ({len(failures)} reasons)")
    sys.exit(1 if failures else 0)


main()
