"""The JSON Patch suite and the vectors of RFC 7396 over HTTP: each case is a PUT, a PATCH and a GET."""

import json
import sys
from pathlib import Path

import httpx

from counted import HEADERS, URL, check, done, leave_out, same

SUITE = Path(__file__).parents[2] / "tests" / "json-patch"
FILES = ("spec_tests.json", "tests.json")
# Target, patch and result of appendix A of RFC 7396.
VECTORS = [
    ('{"a":"b"}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'),
    ('{"a":"b"}', '{"a":null}', "{}"),
    ('{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'),
    ('{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'),
    ('{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'),
    ('{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'),
    ('{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'),
    ('["a","b"]', '["c","d"]', '["c","d"]'),
    ('{"a":"b"}', '["c"]', '["c"]'),
    ('{"a":"foo"}', "null", "null"),
    ('{"a":"foo"}', '"bar"', '"bar"'),
    ('{"e":null}', '{"a":1}', '{"e":null,"a":1}'),
    ("[1,2]", '{"a":"b","c":null}', '{"a":"b"}'),
    ("{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'),
]


def cleaned(value):
    """A value without members that are null, as the gateway keeps it."""
    if isinstance(value, dict):
        return {name: cleaned(inner) for name, inner in value.items() if inner is not None}
    return [cleaned(inner) for inner in value] if isinstance(value, list) else value


def exact(text):
    """JSON that tells 1 from 1.0 and from true."""
    return json.dumps(json.loads(text), sort_keys=True)


class Case:
    """A document of its own, and requests to it."""

    def __init__(self, client, path):
        self.client, self.url = client, f"{URL}/content/{path}"

    def put(self, document):
        same(self.client.put(self.url, content=document).status_code, 201, "the status of PUT")

    def patch(self, patch, kind):
        headers = {"Content-Type": f"application/{kind}"}
        return self.client.patch(self.url, content=patch, headers=headers)

    def body(self):
        return exact(self.client.get(self.url).text)


def reason_against(case):
    """Why a case can't be run over HTTP, or None."""
    if case.get("disabled"):
        return "the suite disables it"
    if case["doc"] is None or cleaned(case["doc"]) != case["doc"]:
        return "PUT drops members that are null, and refuses null"
    return None


def run(client, path, case):
    document, one = json.dumps(case["doc"]), Case(client, path)
    one.put(document)
    answer = one.patch(json.dumps(case["patch"]), "json-patch+json")
    if "error" in case:
        if answer.status_code not in (400, 409):
            raise AssertionError(f"{answer.status_code} {answer.text} for {case['error']!r}")
        same(answer.headers["content-type"], "application/problem+json", "the type")
        same(one.body(), exact(document), "the document after a patch that failed")
    else:
        same(answer.status_code, 200, f"the status of PATCH ({answer.text[:200]})")
        expected = cleaned(case.get("expected", case["doc"]))
        same(one.body(), exact(json.dumps(expected)), "the document")


def named(file, number, case):
    return f"{file} {number} {case.get('comment') or case.get('error') or json.dumps(case['patch'])[:60]}"


def suite(client):
    for file in FILES:
        for number, case in enumerate(json.loads((SUITE / file).read_text())):
            name = named(file, number, case)
            if reason := reason_against(case):
                leave_out(name, reason)
                continue
            if "expected" in case and cleaned(case["expected"]) is None:
                leave_out(name, "the result is null, which is no document")
                continue
            with check(name):
                run(client, f"json-patch/{file}/{number}", case)
    done("JSON Patch suite over HTTP", 85)


def vectors(client):
    for number, (target, patch, expected) in enumerate(VECTORS):
        name = f"{target} with {patch}"
        if not isinstance(json.loads(patch), dict):
            leave_out(name, "a merge patch of the gateway is an object")
            continue
        if not isinstance(json.loads(target), dict):
            leave_out(name, "the target is no object")
            continue
        if cleaned(json.loads(target)) != json.loads(target):
            leave_out(name, "PUT drops members that are null")
            continue
        for kind in ("json", "merge-patch+json", "vnd.hyper-storage-content+json"):
            with check(f"{name} as {kind}"):
                one = Case(client, f"merge-patch/{number}/{kind}")
                one.put(target)
                same(one.patch(patch, kind).status_code, 200, "the status of PATCH")
                same(one.body(), exact(expected), "the document")
    done("RFC 7396 vectors over HTTP", 27)


with httpx.Client(headers=HEADERS, timeout=30) as client:
    {"suite": suite, "vectors": vectors}[sys.argv[1]](client)
