"""The lobby page of the chapter on documents, in Chromium, over a line that breaks.

    browser.py PROGRAM    the gateway to start

The pages come from another origin than the gateway. A server of their own has the token, and asks the gateway for them.
Their feeds go through a line that the checks break.
"""

import contextlib
import json
import pathlib
import re
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import websocket

from counted import check, done, same

CHAPTER = pathlib.Path(__file__).parents[4] / "book/src/layer-documents.md"
LOBBY = "rooms/lobby~"
EVERY = 5_000  # milliseconds between two presences of a page
TTL = 15  # seconds
# What the browser runs before the page: a record of the feeds, of the events that each of them dispatched, and of the warnings.
RECORD = """
window.feeds = [];
window.warnings = [];
console.warn = (text) => warnings.push(String(text));
window.EventSource = class extends EventSource {
    constructor(url) {
        super(url);
        const feed = { url, events: [] };
        feeds.push(feed);
        for (const name of ["begin", "reset", "feed:put", "feed:patch", "feed:delete"])
            this.addEventListener(name, ({ data }) => feed.events.push([name, JSON.parse(data).revision]));
    }
};
"""


def until(what, found, seconds=30):
    """Waits until `found` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds} s: {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """A gateway that can begin again at the same address, over the same file."""

    def __init__(self, program, folder, origin, at_end):
        self.folder, self.port, self.scheme = folder, free_port(), "http"
        self.token_file = folder / "token"
        self.token_file.write_text("a token of the outside checks")
        # No connection outlives a gateway.
        self.client = httpx.Client(timeout=10, verify=False, limits=httpx.Limits(max_keepalive_connections=0))
        self.command = [program, "--embedded", folder / "data.db", "--listen", f"127.0.0.1:{self.port}"]
        self.command += ["--token-file", self.token_file, "--origin", origin]
        self.start()
        at_end.callback(self.kill)

    def start(self):
        with open(self.folder / "log", "a") as log:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        if not self.process.stdout.readline():
            sys.exit(f"The gateway did not start:\n{(self.folder / 'log').read_text()}")

    def stop(self):
        self.process.terminate()
        same(self.process.wait(30), 0, "the code with which the gateway ended")

    def speak_tls(self):
        """From its next start on, the gateway has a certificate that it signed itself."""
        files = ["-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem"]
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
        subprocess.run(make + files, check=True, capture_output=True)
        self.command += ["--tls-cert", self.folder / "cert.pem", "--tls-key", self.folder / "key.pem"]
        self.scheme = "https"

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def call(self, method, path, body=None, **headers):
        headers["Authorization"] = f"Bearer {self.token_file.read_text()}"
        url = f"{self.scheme}://127.0.0.1:{self.port}/hyper-storage/{path}"
        return self.client.request(method, url, json=body, headers=headers)

    def change(self, method, member, body=None):
        """Changes a presence. Returns the revision of the lobby."""
        return int(self.call(method, f"content/{LOBBY}/{member}", body).raise_for_status().headers["revision"])

    def members(self):
        """What a page has to show now."""
        answer = self.call("GET", f"content/{LOBBY}")
        listed = [] if answer.status_code == 404 else answer.raise_for_status().json()
        return sorted(f"{member['id']} (away)" if member["away"] else member["id"] for member in listed)


class Line(socketserver.ThreadingTCPServer):
    """A line to the gateway. It notes the statuses of all answers."""

    daemon_threads = True

    def __init__(self, gateway):
        super().__init__(("127.0.0.1", 0), None)
        self.gateway, self.is_cut, self.open = gateway, False, set()
        self.statuses = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, browser, address):
        if self.is_cut:
            return
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", self.gateway.port)) as gateway:
            pair = (browser, gateway)
            self.open.add(pair)
            back = threading.Thread(target=self.carry, args=(pair, gateway, browser), daemon=True)
            back.start()
            self.carry(pair, browser, gateway)
            back.join()
            self.open.discard(pair)

    def carry(self, pair, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.statuses += [int(status) for status in re.findall(rb"^HTTP/1.1 (\d+)", data, flags=re.M)]
                # A dead line swallows all.
                if pair in self.open:
                    target.sendall(data)
        self.end(pair)

    def end(self, pair):
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def cut(self):
        """Ends all connections. Meanwhile new ones end at once."""
        self.is_cut = True
        until("the connections end", lambda: [self.end(pair) for pair in list(self.open)] == [])
        yield
        self.is_cut = False

    def die(self):
        """Present connections stay open, and carry nothing any more."""
        self.open.clear()


class Pages(ThreadingHTTPServer):
    """The server of the pages, which has the token. The path begins with the player."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.gateway = self.line = None
        self.expires = 0  # of the newest ticket
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A tab that is closed does not wait for its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            raise

    def origin(self, host="127.0.0.1"):
        return f"http://{host}:{self.server_port}"

    def page(self):
        """The page as it stands in the chapter, with the address of the line and a shorter time."""
        block = re.search(r"<!-- lobby -->\n```html\n(.*?)^```$", CHAPTER.read_text(), flags=re.M | re.S)[1]
        line = f"{self.gateway.scheme}://127.0.0.1:{self.line.server_address[1]}/hyper-storage/feed"
        for written, here in [("https://storage.example/hyper-storage/feed", line), ("20_000", str(EVERY))]:
            same(block.count(written), 1, f"the number of times that the page has {written}")
            block = block.replace(written, here)
        return block


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        player, _, rest = self.path.removeprefix("/").partition("/")
        ask = self.server.gateway.call
        try:
            if self.command == "GET" and rest == "":
                return self.answer(200, "text/html", self.server.page())
            if self.command == "POST" and rest == "lobby/ticket":
                answer = ask("POST", "tickets", {"prefix": f"{LOBBY}/"})
                self.server.expires = answer.json()["expires"]
            elif self.command == "PUT" and rest == "lobby/me":
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                ttl = {"Hyper-Storage-TTL": str(TTL)}
                answer = ask("PUT", f"content/{LOBBY}/{player}", {"away": body["away"]}, **ttl)
            elif self.command == "GET" and rest == "lobby":
                answer = ask("GET", f"content/{LOBBY}?size=1000")
                if answer.status_code == 404:
                    return self.answer(200, "application/json", "[]")
            else:
                return self.answer(404, "text/plain", "")
        except httpx.TransportError:
            return self.answer(503, "text/plain", "")
        self.answer(answer.status_code, "application/json", answer.text)

    do_POST = do_PUT = do_GET

    def answer(self, status, kind, text):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Browser:
    def __init__(self, folder, at_end):
        command = ["chromium", "--headless", "--no-sandbox", "--remote-debugging-port=0", "--ignore-certificate-errors"]
        # One of the tabs is in the background. On a busy machine it would wait for the other one.
        command += ["--disable-background-timer-throttling", "--disable-renderer-backgrounding"]
        command += [f"--user-data-dir={folder}/profile", "about:blank"]
        with open(folder / "chromium.log", "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        at_end.callback(self.close)
        port = folder / "profile/DevToolsActivePort"
        until("Chromium starts", lambda: port.exists() and port.read_text().count("\n") == 1)
        self.url = f"http://127.0.0.1:{port.read_text().split()[0]}"

    def close(self):
        self.process.terminate()
        self.process.wait(30)


class Tab:
    """A tab of the browser, which the DevTools protocol drives."""

    def __init__(self, browser, url):
        about = httpx.put(f"{browser.url}/json/new?about:blank").raise_for_status().json()
        self.browser, self.url, self.id, self.sent = browser, url, about["id"], 0
        # Chromium refuses a client that names an origin.
        self.socket = websocket.create_connection(about["webSocketDebuggerUrl"], timeout=30, suppress_origin=True)
        self.command("Page.enable")
        self.command("Page.addScriptToEvaluateOnNewDocument", source=RECORD)
        self.open()

    def open(self):
        """Loads the page, also once more."""
        self.command("Page.navigate", url=self.url)
        until(f"{self.url} is there", lambda: self.run("document.getElementById('shown') !== null"))

    def command(self, method, **params):
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.sent:
            pass
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def run(self, expression):
        """The value of an expression in the page."""
        answer = self.command("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def members(self):
        return sorted(self.run("document.getElementById('shown').textContent").splitlines())

    def feeds(self):
        return self.run("feeds")

    def close(self):
        self.socket.close()
        httpx.get(f"{self.browser.url}/json/close/{self.id}").raise_for_status()


def agree():
    """Both pages show the members that the gateway has, before a silence lets them begin anew."""
    try:
        until("both lists are complete", lambda: ann.members() == bob.members() == gateway.members(), 20)
    except AssertionError as error:
        raise AssertionError(f"{error}: {ann.members()}, {bob.members()} and not {gateway.members()}") from None


def others(number):
    """Changes by somebody else. Returns the last revision of the lobby."""
    gateway.change("PUT", f"carl{number}", {"away": False})
    gateway.change("PATCH", f"carl{number}", {"away": True})
    gateway.change("PUT", f"dave{number}", {"away": False})
    gateway.change("DELETE", f"dave{number}")
    return gateway.change("PUT", f"fred{number}", {"away": False})


def told(tab, revision):
    """The present feed of a page has told each change up to this one, and no loss."""
    def revisions():
        return {told for _, told in tab.feeds()[-1]["events"] if told is not None}

    until("the last change is told", lambda: revisions() and max(revisions()) >= revision)
    heard = sorted(revisions())
    same(heard, list(range(heard[0], heard[-1] + 1)), "the revisions that were told")
    same("reset" in [name for name, _ in tab.feeds()[-1]["events"]], False, "a reset")


def counts():
    """The number of feeds of each page. Each has a ticket of its own."""
    return [len(tab.feeds()) for tab in (ann, bob)]


def another_ticket(why, change, *arguments):
    """A change after which both pages open a feed with another ticket, for this reason."""
    before = counts()
    for tab in (ann, bob):
        tab.run("warnings.length = 0")
    change(*arguments)
    until("both pages have another ticket", lambda: all(now > then for now, then in zip(counts(), before)), 40)
    for tab in (ann, bob):
        same(why in tab.run("warnings"), True, f"{why!r} as a warning")
    agree()


def has(tab, player):
    return any(name.split()[0] == player for name in tab.members())


def see_each_other():
    until("each page has the other player", lambda: has(ann, "bob") and has(bob, "ann"))
    agree()


def changes():
    revision = others(0)
    agree()
    same("carl0 (away)" in ann.members(), True, "carl in the list")
    told(ann, revision)
    told(bob, revision)
    gone = int(gateway.call("DELETE", f"content/{LOBBY}").raise_for_status().headers["revision"])
    for tab in (ann, bob):
        until("the end of the lobby is told", lambda: ["feed:delete", gone] in tab.feeds()[-1]["events"])
    agree()
    same("carl0 (away)" in ann.members(), False, "carl in the list of the new lobby")


def headers():
    """A preflight allows the token and conditions. The page reads headers and problems."""
    url = f"http://127.0.0.1:{gateway.port}/hyper-storage/content/outside-browser"
    sent = {"Authorization": f"Bearer {gateway.token_file.read_text()}", "If-None-Match": "*", "Idempotency-Key": "1"}
    put = """fetch(%s, { method: "PUT", headers: %s, body: "1" }).then(async (answer) => {
        return [answer.status, answer.headers.get("Revision"), answer.headers.get("ETag"), await answer.json()];
    })"""
    status, revision, tag, _ = ann.run(put % (json.dumps(url), json.dumps(sent)))
    same((status, revision), (201, "1"), "the answer")
    same(gateway.call("GET", "content/outside-browser").headers["etag"], tag, "the tag")
    status, _, _, problem = ann.run(put % (json.dumps(url), json.dumps({**sent, "Idempotency-Key": "2"})))
    same((status, problem["type"]), (412, "urn:document-gateway:condition"), "the problem")
    status, _, _, problem = ann.run(put % (json.dumps(url), "{}"))
    same((status, problem["type"]), (401, "urn:document-gateway:unauthorized"), "the problem without a token")


def stranger():
    """A page of an origin that the gateway was not given."""
    eve = Tab(browser, f"{pages.origin('localhost')}/eve/")
    until("the feed of the stranger is refused", lambda: len(eve.feeds()) > 1)
    same([feed["events"] for feed in eve.feeds() if feed["events"]], [], "the events of the stranger")
    url = json.dumps(f"http://127.0.0.1:{gateway.port}/hyper-storage/openapi.json")
    same(eve.run(f"fetch({url}).then(() => 'read', (error) => error.name)"), "TypeError", "the answer")
    same(ann.run(f"fetch({url}).then(() => 'read', (error) => error.name)"), "read", "the answer")
    eve.close()


def breaks(number):
    """The browser comes back with the last ids and the same tickets, and is told what it missed."""
    before = counts()
    with line.cut():
        revision = others(number)
    agree()
    told(ann, revision)
    told(bob, revision)
    same(counts(), before, "the number of tickets")


def dies():
    line.die()
    others(10)


def begins_again(number):
    gateway.stop()
    gateway.start()
    revision = others(number)
    agree()
    told(ann, revision)
    told(bob, revision)


def is_killed():
    others(30)
    gateway.kill()
    gateway.start()
    others(31)
    agree()


def runs_out():
    """A gateway that begins again does not know which tickets have opened a feed."""
    until("the tickets are over", lambda: time.time() > pages.expires, 90)
    line.statuses.clear()
    another_ticket("the feed was refused", begins_again, 40)
    same(line.statuses.count(204), 2, f"the answers 204 in {line.statuses}")


def other_token():
    gateway.token_file.write_text("another token of the outside checks")
    line.statuses.clear()
    another_ticket("the feed was refused", begins_again, 50)
    same(line.statuses.count(401), 2, f"the answers 401 in {line.statuses}")


def over_tls():
    """The browser speaks HTTP/2, so the feeds of both pages share a connection."""
    gateway.stop()
    gateway.speak_tls()
    gateway.start()
    for tab in (ann, bob):
        tab.open()
    see_each_other()
    until("both feeds share one connection", lambda: len(line.open) == 1)
    breaks(60)


def leaves():
    bob.close()
    until("the list is without the player who left", lambda: not has(ann, "bob"), TTL + 40)
    same(has(ann, "ann"), True, "the other player in the list")


with contextlib.ExitStack() as at_end:
    # Chromium can still write while it ends.
    folder = pathlib.Path(at_end.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
    pages = Pages()
    gateway = pages.gateway = Gateway(sys.argv[1], folder, pages.origin(), at_end)
    line = pages.line = Line(gateway)
    browser = Browser(folder, at_end)
    # Somebody who does not tell more is heard of by the list alone.
    gateway.change("PUT", "zoe", {"away": True})
    ann, bob = (Tab(browser, f"{pages.origin()}/{player}/") for player in ("ann", "bob"))
    with check("two pages see each other"):
        see_each_other()
    with check("changes by others are seen, and the end of the lobby"):
        changes()
    with check("a page of an allowed origin sends the token and reads headers and problems"):
        headers()
    with check("a page of another origin hears and reads nothing"):
        stranger()
    for number in range(1, 4):
        with check(f"break {number} of the line loses no change"):
            breaks(number)
    with check("a page gives a dead line up"):
        another_ticket("no event came", dies)
    with check("a gateway that begins again loses no change"):
        begins_again(20)
    with check("after the end of a killed gateway the lists are those of the next one"):
        is_killed()
    with check("a ticket that has run out is followed by another one"):
        runs_out()
    with check("a ticket of another token is followed by another one"):
        other_token()
    with check("two feeds over TLS share a connection, and a break of it loses no change"):
        over_tls()
    with check("a player who left is listed no more"):
        leaves()
    with check("the gateway ends in order"):
        gateway.stop()
        same("panicked" in (folder / "log").read_text(), False, "a panic")
done("browser", 15)
