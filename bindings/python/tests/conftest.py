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


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    """A trace of a provider `Example.Shop`, recorded here: 300 orders of two workers, and 10 warnings."""
    if sys.platform != "linux":
        pytest.skip("sessions need Linux")
    import openetw

    file = tmp_path_factory.mktemp("recorded") / "shop.etl"
    with openetw.Provider("Example.Shop") as shop:
        with openetw.Session("OpenETW.PyTest.Shop", providers=["Example.Shop"], file=file) as session:
            for n in range(300):
                assert shop.write("Order", n=n, worker="AdaBob"[n % 2 * 3 :][:3], price=n / 4, items=["tea"] * (n % 3))
            for n in range(10):
                assert shop.write("Warning", level=3, n=n)
            assert shop.write("Nothing")
    assert session.stop().events_written == 311
    return file


def pytest_runtest_logreport(report):
    """Records a skipped test with its reason, for the count of skips (OPENETW_SKIPS names the file)."""
    skips = os.environ.get("OPENETW_SKIPS")
    if skips and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        with open(skips, "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\t{' '.join(reason.split())}\n")
