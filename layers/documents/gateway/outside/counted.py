"""Checks that are counted. A part of the outside checks ends with `done`."""

import os
import sys
from contextlib import contextmanager
from urllib.parse import urlsplit

URL = os.environ["URL"]  # with /hyper-storage
TOKEN = os.environ["TOKEN"]
ORIGIN = "{0.scheme}://{0.netloc}".format(urlsplit(URL))
HEADERS = {"Authorization": f"Bearer {TOKEN}"}

passed, failed, not_run = [], [], []


@contextmanager
def check(name):
    """One check. Any exception within it is its failure."""
    try:
        yield
    except Exception as error:
        failed.append(name)
        print(f"FAILED {name}: {type(error).__name__}: {error}")
    else:
        passed.append(name)


def same(found, expected, what=""):
    if found != expected:
        raise AssertionError(f"{what} is {found!r} and not {expected!r}")


def leave_out(name, reason):
    not_run.append(name)
    print(f"not run: {name}: {reason}")


def done(what, least):
    """Prints the counts. Fewer checks than `least` are a failure, so that none is lost unseen."""
    print(f"{what}: {len(passed)} passed, {len(failed)} failed, {len(not_run)} not run")
    if len(passed) + len(failed) < least:
        print(f"FAILED {what}: at least {least} checks were expected")
        sys.exit(1)
    sys.exit(1 if failed else 0)
