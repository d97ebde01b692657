"""httplint reads answers to GET and HEAD as they come over the wire."""

import http.client
import time
from urllib.parse import urlsplit

from httplint import HttpRequestLinter, HttpResponseLinter, levels

from counted import HEADERS, URL, check, done, same

# Notes that say what these checks want: the answer to a bad request is 400.
EXPECTED = {"STATUS_BAD_REQUEST"}


def exchange(method, path, headers):
    """Request and answer, linted."""
    parts = urlsplit(URL)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    target = f"{parts.path}{path}" if path != "/ready" else path
    connection.request(method, target, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    request = HttpRequestLinter(start_time=time.time())
    request.process_request_topline(method.encode(), f"http://{parts.netloc}{target}".encode(), b"1.1")
    sent = {"User-Agent": "outside", "Host": parts.netloc, **headers}
    request.process_headers([(name.encode(), value.encode()) for name, value in sent.items()])
    request.finish_content(True)
    response = HttpResponseLinter(start_time=time.time())
    response.request, request.response = request, response
    response.is_head_response = method == "HEAD"
    response.base_uri = request.uri
    response.process_response_topline(b"1.1", str(answer.status).encode(), answer.reason.encode())
    response.process_headers([(name.encode(), value.encode()) for name, value in answer.getheaders()])
    response.feed_content(content)
    response.finish_content(True)
    return answer, response


def prepared():
    """Puts a document and a collection. Returns the tags of both."""
    def call(method, path, body=None):
        connection = http.client.HTTPConnection(urlsplit(URL).netloc, timeout=30)
        # One of the cases reads landed changes alone.
        headers = {**HEADERS, "Hyper-Storage-Wait": "landed"}
        connection.request(method, f"{urlsplit(URL).path}/content/{path}", body, headers)
        answer = connection.getresponse()
        answer.read()
        return answer

    call("PUT", "outside-lint~/ann", '{"level":1}')
    call("PUT", "outside-lint~/bob", '{"level":2}')
    put = call("PUT", "outside-lint", '{"level":1}')
    return put.headers["etag"], call("GET", "outside-lint~").headers["etag"], put.headers["hyper-storage-transaction"]


def cases():
    tag, listed, transaction = prepared()
    document, collection = "/content/outside-lint", "/content/outside-lint~"
    none_match = {**HEADERS, "If-None-Match": tag}
    hal = {**HEADERS, "Accept": "application/hal+json"}
    return [
        ("GET", document, HEADERS, 200),
        ("HEAD", document, HEADERS, 200),
        ("GET", document, none_match, 304),
        ("GET", document, {**HEADERS, "If-Match": '"0"'}, 412),
        ("GET", f"{document}/nothing", HEADERS, 404),
        ("GET", "/content/a%20b", HEADERS, 400),
        ("GET", document, {}, 401),
        ("GET", f"{collection}/ann", HEADERS, 200),
        ("GET", f"{collection}?size=1", HEADERS, 200),
        ("GET", f"{collection}?size=1", hal, 200),
        ("HEAD", collection, HEADERS, 200),
        ("GET", collection, {**HEADERS, "If-None-Match": listed}, 304),
        ("GET", collection, {**HEADERS, "Prefer": "consistency=landed"}, 200),
        ("GET", "/_changes", HEADERS, 200),
        ("GET", f"/transactions/{transaction}", HEADERS, 200),
        ("GET", "/_export", HEADERS, 200),
        ("GET", "/_metrics", HEADERS, 200),
        ("GET", "/nothing", HEADERS, 404),
        ("TRACE", "/_changes", HEADERS, 405),
        ("PATCH", collection, HEADERS, 405),
        ("POST", f"{collection}/ann", HEADERS, 405),
        ("HEAD", "/_changes", HEADERS, 200),
        ("HEAD", "/feed", HEADERS, 200),
        ("GET", "/ready", {}, 204),
    ]


warnings = {}


def judge(name, response):
    """Fails for a bad note. Warnings are told."""
    bad = []
    for note in response.notes:
        kind, text = type(note).__name__, f"{type(note).__name__}: {note.summary}"
        if kind in EXPECTED:
            continue
        if note.level == levels.BAD:
            bad.append(text)
        elif note.level == levels.WARN:
            warnings.setdefault(text, []).append(name)
    if bad:
        raise AssertionError("; ".join(bad))


for method, path, headers, status in cases():
    name = f"{method} {path} {status}"
    with check(name):
        answer, response = exchange(method, path, headers)
        if answer.status != status:
            raise AssertionError(f"the status is {answer.status}")
        judge(name, response)


def same_validators(path):
    """A 304 has the tag and the Vary of the 200 (RFC 9110, section 15.4.5)."""
    fresh, _ = exchange("GET", path, HEADERS)
    kept, _ = exchange("GET", path, {**HEADERS, "If-None-Match": fresh.headers["etag"]})
    same(kept.status, 304, "the status")
    for name in ("etag", "vary", "cache-control"):
        same(kept.headers[name], fresh.headers[name], f"{name} of the 304")


for path in ("/content/outside-lint", "/content/outside-lint~"):
    with check(f"GET {path}: the headers of 304 are those of 200"):
        same_validators(path)
for text, names in warnings.items():
    print(f"warning of {len(names)} answers, such as {names[0]}: {text}")
done("httplint", 26)
