"""Measures document-gateway, pouchdb-server and Kinto in turn, by wrk and by one follower. Prints a table in Markdown."""

import http.client
import json
import os
import queue
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from base64 import b64encode
from pathlib import Path
from urllib.parse import urlsplit

ROUNDS = int(os.environ["ROUNDS"])
SECONDS = int(os.environ["SECONDS_EACH"])
CONNECTIONS = 8  # each PUTs a document of its own
EVENTS = 30  # of a round
OURS, POUCHDB, KINTO = os.environ["OURS"], os.environ["POUCHDB"], os.environ["KINTO"]


def body(value):
    return '{"level":%s,"name":"Ann","guild":"red","seats":[1,2,3],"place":{"x":17,"y":4}}' % value


class Server:
    """A server as a client sees it, which knows the revision of each of its documents."""

    def __init__(self, name, documents, more, *, rule="etag", wrapped="%s", headers=(), follow, reads=True):
        self.name, self.documents, self.more, self.rule, self.wrapped, self.reads = name, documents, more, rule, wrapped, reads
        self.headers = {"Content-Type": "application/json", **dict(headers)}
        self.follow = follow
        parts = urlsplit(documents)
        self.address, self.path = parts.netloc, parts.path
        self.connection = self.connect()

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=30)

    def ask(self, method, path, content=None, headers=(), connection=None):
        connection = connection or self.connection
        connection.request(method, path, content, {**self.headers, **dict(headers)})
        answer = connection.getresponse()
        text = answer.read().decode()
        return answer, text

    def revision(self, number):
        """The revision of a document. None if it is not there."""
        answer, text = self.ask("GET", f"{self.path}{number}")
        if answer.status == 404:
            return None
        return json.loads(text)["_rev"] if self.rule == "rev" else answer.headers["etag"]

    def put(self, number, value, revision):
        """Puts a document that has this revision. Returns its next one."""
        path, headers = f"{self.path}{number}", {}
        if revision and self.rule == "rev":
            path += f"?rev={revision}"
        elif revision:
            headers["If-Match"] = revision
        answer, text = self.ask("PUT", path, self.wrapped % body(value), headers)
        if answer.status not in (200, 201):
            raise SystemExit(f"{self.name}: PUT answered {answer.status} {text}")
        return json.loads(text)["rev"] if self.rule == "rev" else answer.headers["etag"]

    def prepare(self):
        for number in range(CONNECTIONS):
            self.put(number, 0, self.revision(number))


def streamed(path):
    """What a feed that stays open sends, line by line."""

    def follow(server, connection):
        connection.request("GET", path, headers=server.headers)
        for line in connection.getresponse():
            yield line.decode()

    return follow


def polled(path, since, cursor):
    """The answers to one request after the other, each of them since the last."""

    def follow(server, connection):
        nonlocal since
        while True:
            answer, text = server.ask("GET", path + since, connection=connection)
            if answer.status != 200:
                raise RuntimeError(f"{path}{since} answered {answer.status} {text}")
            yield text
            since = cursor(answer, text)

    return follow


def wrk(server, url, *options):
    """The requests a second. Every answer has to be a good one."""
    command = ["wrk", "--threads", str(CONNECTIONS), "--connections", str(CONNECTIONS), "--duration", f"{SECONDS}s", "--timeout", "10s"]
    for name, value in server.headers.items():
        command += ["--header", f"{name}: {value}"]
    out = subprocess.run([*command, *options[:2], url, *options[2:]], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"{server.name}: {out}")
    return float(re.search(r"Requests/sec: *([0-9.]+)", out)[1])


def gets(server, _):
    return wrk(server, f"{server.documents}0") if server.reads else None


def puts(server, value):
    revisions = [server.revision(number) for number in range(CONNECTIONS)]
    script = Path(__file__).with_name("put.lua")
    rule = [server.rule, server.wrapped % body("%d"), str(value), *revisions]
    return wrk(server, server.documents, "--script", script, "--", *rule)


def events(server, value):
    """The median of the milliseconds from the send of a PUT until its follower has the new body."""
    heard, connection = queue.Queue(), server.connect()
    ends = threading.Event()

    def listen():
        try:
            for text in server.follow(server, connection):
                heard.put((time.monotonic(), text.replace(" ", "")))
        except Exception:
            # The shutdown below ends the wait for more.
            if not ends.is_set():
                raise

    def until(number, seconds):
        """The moment at which the body with this number was heard. None if it was not in time."""
        last = time.monotonic() + seconds
        while (rest := last - time.monotonic()) > 0:
            try:
                moment, text = heard.get(timeout=rest)
            except queue.Empty:
                break
            if f'"level":{number},' in text:
                return moment
        return None

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    revision, spent, tries = server.revision(0), [], 0
    while len(spent) <= EVENTS:
        value += 1
        begun = time.monotonic()
        revision = server.put(0, value, revision)
        moment = until(value, 2 if not spent else 20)
        tries += 1
        # Until the first one is heard, the follower may not have begun. That one does not count.
        if moment is not None:
            spent.append(1000 * (moment - begun))
        elif spent or tries > 10:
            raise SystemExit(f"{server.name}: the follower missed a PUT")
    ends.set()
    connection.sock.shutdown(socket.SHUT_RDWR)
    listener.join(10)
    return statistics.median(spent[1:])


def servers():
    bearer = {"Authorization": f"Bearer {os.environ['TOKEN']}"}
    prefix = urlsplit(OURS).path
    ours = Server(
        "document-gateway",
        f"{OURS}/content/peers/",
        "A change is in memory at its answer, and in the file about half a second later. A process that is killed loses that much. "
        "Follower: the live feed.",
        headers=bearer,
        follow=streamed(f"{prefix}/feed?prefix=peers/"),
    )
    landed = Server(
        "document-gateway, `landed`",
        f"{OURS}/content/peers-landed/",
        "More: a change is in SQLite's log at its answer. A process that is killed loses nothing, and a loss of power can take the last changes. "
        "Follower: the landed feed, by requests that wait.",
        headers={**bearer, "Hyper-Storage-Wait": "landed"},
        follow=polled(f"{prefix}/_changes?prefix=peers-landed/&wait=5&since=", "now", lambda _, text: json.loads(text)["last_seq"]),
        reads=False,
    )
    pouchdb = Server(
        "pouchdb-server",
        f"{POUCHDB}/peers/",
        "More: a change is in LevelDB's log at its answer, unsynchronised, so as safe as `landed`. All revisions are kept for replication, "
        "and their bodies until they are compacted. Less: no token is asked for. Follower: `_changes?feed=continuous` with documents.",
        rule="rev",
        follow=streamed("/peers/_changes?feed=continuous&since=now&include_docs=true"),
    )
    records = "/buckets/peers/collections/peers/records"
    kinto = Server(
        "Kinto, backend `memory`",
        f"{KINTO}{records}/",
        "More: rights of each object. Less: nothing is ever on a disk, no version is counted, and there is no feed without plugins. "
        "Follower: requests with `_since`, one after the other without a pause.",
        wrapped='{"data":%s}',
        headers={"Authorization": f"Basic {b64encode(b'peers:peers').decode()}"},
        follow=polled(f"/v1{records}?_since=", "0", lambda answer, _: answer.headers["etag"].strip('"')),
    )
    pouchdb.ask("PUT", "/peers")
    kinto.ask("PUT", "/v1/buckets/peers", "{}")
    kinto.ask("PUT", "/v1/buckets/peers/collections/peers", "{}")
    return [ours, landed, pouchdb, kinto]


CASES = {"GET, a second": gets, "PUT, a second": puts, "PUT to event, ms": events}


def rounded(figure):
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


def cell(mine, ours):
    """A median, and the median of its ratios to ours in the same rounds."""
    if None in mine:
        return "as above"
    ratio = statistics.median(one / other for one, other in zip(mine, ours))
    return f"{rounded(statistics.median(mine))} ({rounded(ratio)})"


def main():
    every = servers()
    for server in every:
        server.prepare()
    figures = {(server.name, case): [] for server in every for case in CASES}
    value = 100_000_000
    for number in range(ROUNDS):
        for case, measure in CASES.items():
            for server in every if number % 2 == 0 else reversed(every):
                value += 1_000_000
                # Servers close a connection that was not used for some seconds.
                server.connection.close()
                figure = measure(server, value)
                figures[server.name, case].append(figure)
                print(f"round {number + 1}: {server.name}: {case}: {figure or '-'}", file=sys.stderr)
    print(f"{CONNECTIONS} connections GET one document, or each PUTs its own one of {len(body(0))} bytes under its last revision. One follower hears")
    print("of one PUT after the other. In brackets is the median of the ratios to the first row.")
    print()
    print(f"| server | {' | '.join(CASES)} | more or less than the first |")
    print("| --- " + "| ---: " * len(CASES) + "| --- |")
    for server in every:
        cells = [cell(figures[server.name, case], figures[every[0].name, case]) for case in CASES]
        print(f"| {server.name} | {' | '.join(cells)} | {server.more} |")


main()
