"""The live feed as a client of somebody else hears it: httpx-sse."""

import json
import threading

import httpx
from httpx_sse import connect_sse

from counted import HEADERS, URL, check, done, same

FEED = f"{URL}/feed"
PREFIX = "outside-feed"


def events(since=None):
    """The events of one connection, until the caller has enough."""
    headers = HEADERS if since is None else {**HEADERS, "Last-Event-ID": since}
    timeout = httpx.Timeout(10, read=20)
    with httpx.Client(headers=headers, timeout=timeout) as client:
        with connect_sse(client, "GET", FEED, params={"prefix": PREFIX}) as source:
            same(source.response.status_code, 200, "the status")
            yield from source.iter_sse()


def some(stream, names):
    """The next events, which have these names."""
    heard = [next(stream) for _ in names]
    same([event.event for event in heard], names, "the events")
    return heard


def data(event):
    return json.loads(event.data)


def call(method, path, text=None):
    answer = httpx.request(method, f"{URL}/content/{PREFIX}/{path}", content=text, headers=HEADERS, timeout=10)
    return answer.raise_for_status()


def follow():
    """Hears a put, a patch and a delete. Returns the last id and tag."""
    stream = events()
    some(stream, ["begin"])
    tag = call("PUT", "a", '{"level":1,"name":"Ann"}').headers["etag"]
    call("PATCH", "a", '{"level":2,"name":null}')
    call("DELETE", "a")
    put, patch, delete = some(stream, ["feed:put", "feed:patch", "feed:delete"])
    stream.close()
    same((data(put)["body"], data(put)["etag"]), ({"level": 1, "name": "Ann"}, tag), "the put")
    same(data(patch)["body"], {"level": 2, "name": None}, "the patch")
    same("body" in data(delete), False, "a body of the delete")
    same([data(event)["revision"] for event in (put, patch, delete)], [1, 2, 3], "the revisions")
    same(data(patch)["prev"], data(put)["etag"], "the tag before the patch")
    return delete.id, data(delete)["etag"]


def missed(last):
    """Changes while nobody listens are told to a client that comes back, and then it goes on."""
    call("PUT", "b", "1")
    call("PUT", "a", "[]")
    stream = events(last)
    some(stream, ["begin"])
    first, second = some(stream, ["feed:put", "feed:put"])
    same({data(first)["path"], data(second)["path"]}, {f"{PREFIX}/a", f"{PREFIX}/b"}, "the paths")
    later = threading.Timer(0.2, call, ("PUT", "c", "2"))
    later.start()
    (third,) = some(stream, ["feed:put"])
    later.join()
    stream.close()
    same(data(third)["path"], f"{PREFIX}/c", "the path of the change that comes later")
    return third.id


def nothing_twice(last):
    """A client that has all is told the next change alone."""
    stream = events(last)
    some(stream, ["begin"])
    call("DELETE", "c")
    (event,) = some(stream, ["feed:delete"])
    stream.close()
    same(data(event)["path"], f"{PREFIX}/c", "the path")


last = None
with check("a put, a patch and a delete are heard with their bodies, revisions and tags"):
    last, _ = follow()
with check("Last-Event-ID brings what was missed, and the feed goes on"):
    last = missed(last)
with check("a client that has all gets nothing twice"):
    nothing_twice(last)
with check("the feed has the type of event streams, and is not cached"):
    with httpx.stream("GET", FEED, headers=HEADERS, timeout=10) as answer:
        same(answer.headers["content-type"], "text/event-stream", "the type")
        same(answer.headers["cache-control"], "no-store", "the caching")
with check("an id that is none is refused"):
    answer = httpx.get(FEED, headers={**HEADERS, "Last-Event-ID": "nonsense"}, timeout=10)
    same(answer.status_code, 400, "the status")
done("SSE client", 5)
