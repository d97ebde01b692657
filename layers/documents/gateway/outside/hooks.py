"""Keeps schemathesis from waiting, and from asking the embedded mode for what it has not."""

import schemathesis

# The embedded mode has neither replicas nor a disk of its hot tier.
ABSENT = {"replicated", "fsynced"}


@schemathesis.hook
def before_call(ctx, case, kwargs):
    headers = case.headers or {}
    if headers.get("Hyper-Storage-Wait") in ABSENT:
        case.headers["Hyper-Storage-Wait"] = "landed"
    wait = (case.query or {}).get("wait")
    if str(wait).isdigit() and 1 < int(wait) <= 60:
        case.query["wait"] = 1
