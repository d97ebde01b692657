"""Calls of the client that openapi-python-client made of the description."""

import time

import httpx

from counted import ORIGIN, TOKEN, check, done, same
from document_gateway_client import AuthenticatedClient, Client
from document_gateway_client.api.collections import delete_collection, get_item, list_items, post_item, put_item
from document_gateway_client.api.documents import delete_document, get_document, patch_document, put_document
from document_gateway_client.api.feeds import get_changes, get_transaction
from document_gateway_client.api.operation import get_metrics, is_ready
from document_gateway_client.models import (
    Change,
    Changed,
    DocumentType0,
    Durability,
    Increment,
    Item,
    MergePatch,
    Operation,
    Posted,
    Problem,
    TransactionState,
)

PATH = "outside-client/red"
client = AuthenticatedClient(base_url=ORIGIN, token=TOKEN, timeout=httpx.Timeout(30))


def made(kind, **members):
    return kind.from_dict(members)


def typed(answer, kind, status):
    same((type(answer.parsed), answer.status_code), (kind, status), f"the answer {answer.content!r}")
    return answer.parsed


def landed(id):
    """The state of a change, which is landed within some seconds."""
    for _ in range(100):
        state = get_transaction.sync(id, client=client).state
        if state is TransactionState.LANDED:
            break
        time.sleep(0.1)
    return state


with check("put_document creates"):
    put = put_document.sync_detailed(PATH, client=client, body=made(DocumentType0, name="Red", seats=3))
    changed = typed(put, Changed, 201)
    same((changed.path, changed.revision, changed.target.id), (PATH, 1, "red"), "the change")
with check("get_document answers the body and its tag"):
    got = get_document.sync_detailed(PATH, client=client)
    same(typed(got, DocumentType0, 200).to_dict(), {"name": "Red", "seats": 3}, "the body")
    same((got.headers["etag"], got.headers["revision"]), (put.headers["etag"], "1"), "tag and revision")
with check("get_document answers 304 for the tag that it gave"):
    same(get_document.sync_detailed(PATH, client=client, if_none_match=got.headers["etag"]).status_code, 304, "the status")
with check("patch_document merges"):
    patch = made(MergePatch, seats=None, open=True)
    same(typed(patch_document.sync_detailed(PATH, client=client, body=patch), Changed, 200).revision, 2, "the revision")
with check("patch_document increments"):
    typed(patch_document.sync_detailed(PATH, client=client, body=made(Increment, gold=5)), Changed, 200)
with check("patch_document takes operations"):
    patch = [made(Operation, op="add", path="/level", value=7), made(Operation, op="test", path="/gold", value=5)]
    typed(patch_document.sync_detailed(PATH, client=client, body=patch), Changed, 200)
    expected = {"name": "Red", "open": True, "gold": 5, "level": 7}
    same(get_document.sync(PATH, client=client).to_dict(), expected, "the body")
with check("put_document with an old tag is a problem"):
    late = put_document.sync_detailed(PATH, client=client, body=1, if_match=put.headers["etag"])
    same(typed(late, Problem, 412).type_.value, "urn:document-gateway:condition", "the type")
with check("put_item and post_item fill a collection"):
    ann = put_item.sync_detailed("outside-members", "ann", client=client, body=made(Item, name="Ann", level=7))
    same(typed(ann, Changed, 201).count, 1, "the count")
    bob = post_item.sync_detailed("outside-members", client=client, body=made(Posted, name="Bob", level=3))
    same(typed(bob, Changed, 201).count, 2, "the count")
    item = get_item.sync("outside-members", bob.parsed.target.id, client=client)
    same((item.id, item["name"]), (bob.parsed.target.id, "Bob"), "the item")
with check("list_items sorts, filters and has a link to the next page"):
    page = list_items.sync_detailed("outside-members", client=client, sort="-level", size=1)
    same(([item["name"] for item in page.parsed], page.headers["count"]), (["Ann"], "2"), "the page")
    target = page.headers["link"].split(">")[0].lstrip("<")
    rest = client.get_httpx_client().get(target).json()
    same([item["name"] for item in rest], ["Bob"], "the next page")
    few = list_items.sync("outside-members", client=client, filter_="level > 5 and name = 'Ann'")
    same([item.id for item in few], ["ann"], "the page")
with check("delete_document is told by get_transaction and get_changes"):
    gone = typed(delete_document.sync_detailed(PATH, client=client), Changed, 200)
    same(landed(gone.transaction_id), TransactionState.LANDED, "the state")
    page = get_changes.sync(client=client, prefix=[PATH])
    same([type(change) for change in page.results], [Change] * len(page.results), "the changes")
    same((page.results[-1].id, page.results[-1].method.value), (gone.transaction_id, "feed:delete"), "the last change")
with check("a change that waited until it landed has landed for get_transaction and get_changes"):
    for number in range(8):
        path = f"outside-landed/{number}"
        put = put_document.sync(path, client=client, body=number, hyper_storage_wait=Durability.LANDED)
        same(get_transaction.sync(put.transaction_id, client=client).state, TransactionState.LANDED, "the state")
        same([change.id for change in get_changes.sync(client=client, prefix=[path]).results], [put.transaction_id], "the changes")
with check("delete_collection, and a list of it then is a problem"):
    typed(delete_collection.sync_detailed("outside-members", client=client), Changed, 200)
    missing = typed(list_items.sync_detailed("outside-members", client=client), Problem, 404)
    same(missing.type_.value, "urn:document-gateway:missing", "the type")
with check("a parameter that nobody knows is a problem"):
    answer = client.get_httpx_client().get("/hyper-storage/_changes?sincee=now")
    same((answer.status_code, answer.json()["type"]), (400, "urn:document-gateway:request"), "the answer")
with check("a wrong token is a problem, and get_metrics needs the right one"):
    other = AuthenticatedClient(base_url=ORIGIN, token="wrong")
    typed(get_document.sync_detailed(PATH, client=other), Problem, 401)
    same("storage_document_requests_total" in get_metrics.sync_detailed(client=client).content.decode(), True, "the figures")
with check("is_ready needs no token"):
    same(is_ready.sync_detailed(client=Client(base_url=ORIGIN)).status_code, 204, "the status")
done("typed client", 15)
