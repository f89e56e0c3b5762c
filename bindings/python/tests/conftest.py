"""Real traces for the tests, and names for sessions."""

import os
import pathlib
import sys
import tempfile
import uuid

import pytest

# Before the first provider connects: a host that no other program uses.
RUNTIME = tempfile.TemporaryDirectory(prefix="openetw-pytest-")
os.environ["OPENETW_RUNTIME_DIR"] = RUNTIME.name

DATA = pathlib.Path(os.environ.get("OPENETW_DATA") or pathlib.Path(__file__).parents[4] / "shared")


def real(name):
    """The path of a real trace; skips the test without it."""
    path = DATA / "etl" / name
    if not path.exists():
        pytest.skip(f"no real traces in {DATA} (OPENETW_DATA names another directory)")
    return path


@pytest.fixture
def net():
    return real("microsoft-perfview/net.4.5.2.x64.etl")


@pytest.fixture
def network():
    return real("microsoft-Tx/KernelNetwork.etl")


@pytest.fixture
def primitives():
    return real("microsoft-perfview/primitive-types.etl")


@pytest.fixture
def name():
    """A name for a session and its provider."""
    if sys.platform != "linux":
        pytest.skip("sessions need Linux")
    return f"OpenETW.PyTest.{uuid.uuid4().hex[:8]}"
