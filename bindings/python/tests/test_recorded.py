"""Reading without real traces: everything here reads a trace that the tests have recorded."""

import collections.abc
import inspect
import os
import subprocess
import sys
import threading
import time

import pytest

import openetw

KIND = "Example.Shop/Order"


def test_loop_and_filters(shop):
    trace = openetw.open(shop)
    orders = [event for event in trace if event.kind == KIND]
    assert [event["n"] for event in orders] == list(range(300))
    assert orders[7].fields == {"n": 7, "worker": "Bob", "price": 1.75, "items": ["tea"]}
    assert orders[7].pid == os.getpid() and orders[7].tid == threading.get_native_id()
    assert trace.start <= orders[0].time <= orders[-1].time <= trace.end
    assert len(list(trace.where("worker == 'Ada'").where("n < 100"))) == 50
    assert {event.name for event in trace.where("level <= Warning").provider("Example.Shop")} == {"Warning"}
    assert [event["n"] for event in trace.provider("Example.Shop").limit(2)] == [0, 1]
    assert list(trace.between(end=0)) == [] if trace.start == orders[0].time else True
    assert trace.kinds()[KIND] == 300


def test_events_have_the_header_of_tables(shop):
    pytest.importorskip("pyarrow")
    trace = openetw.open(shop)
    event = next(iter(trace.where("n == 7")))
    header = event.header
    assert header["process_id"] == event.pid and header["time"] == event.time and header["level"] == event.level
    assert header["event"] == "Order" and header["provider_guid"] == event.provider_id and "decode_error" not in header
    columns = trace.to_arrow(KIND).column_names
    assert set(header) & set(columns) >= {"time", "processor", "process_id", "thread_id", "version", "keywords"}


def test_events_are_mappings(shop):
    event = next(iter(openetw.open(shop).where("n == 7")))
    assert isinstance(event, collections.abc.Mapping)
    assert dict(event) == event.fields == dict(**event) and "n" in event and 7 not in event
    nothing = next(iter(openetw.open(shop).where("event == Nothing")))
    assert len(nothing) == 0 and nothing and nothing.fields == {}
    events, count = iter(openetw.open(shop).provider("Example.Shop")), 0
    while event := events.next():
        count += 1
    assert count == 311


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match needs Python 3.10")
def test_events_match_patterns(shop):
    event = next(iter(openetw.open(shop).where("n == 7")))
    namespace = {"event": event}
    exec("match event:\n    case {'n': n, 'worker': 'Bob'}: found = n\n", namespace)
    assert namespace["found"] == 7


def test_columns(shop):
    pytest.importorskip("pyarrow")
    trace = openetw.open(shop)
    table = trace.to_arrow(KIND, ["n", "worker", "price"], where="n >= 100")
    assert table.num_rows == 200 and table["n"].to_pylist() == list(range(100, 300))
    assert trace.where("worker == 'Ada'").table(KIND).num_rows == 150
    # Events without and with elements of a list have two schemas.
    whole = trace.to_arrow(KIND)
    assert whole["n"].to_pylist() == list(range(300))
    assert whole["items"].to_pylist()[:4] == [[], ["tea"], ["tea", "tea"], []]
    assert sum(len(table) for table in trace.tables().values()) == len(list(trace))
    events = trace.to_arrow("events", ["time", "kind"])
    assert events["kind"].to_pylist().count(KIND) == 300
    pivot = trace.pivot("events", ["kind.event"], ["count(time)"]).to_arrow().to_pylist()
    assert pivot[0] == {"kind.event": "Order", "rows": 300, "count(time)": 300}
    # Of a reference to rows, each row is a group; the two schemas of the event are rows.
    assert trace.to_arrow(KIND, "n").column_names == ["n"]
    pivot = trace.pivot("events", "kind").to_arrow().to_pylist()
    assert [row["rows"] for row in pivot if row["kind"] == KIND] == [200, 100]
    polars = pytest.importorskip("polars")
    frame = trace.to_polars(KIND)
    assert frame.filter(polars.col("worker") == "Bob")["price"].sum() == sum(n / 4 for n in range(1, 300, 2))
    pandas = pytest.importorskip("pandas")
    frame = trace.to_pandas(KIND)
    assert str(frame["time"].dt.tz) == "UTC" and frame["n"].tolist() == list(range(300))
    assert isinstance(frame["time"].iloc[0], pandas.Timestamp)


def test_columns_need_a_library_that_is_there(shop):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import openetw\n"
        "table = openetw.open(sys.argv[1]).table('Example.Shop/Order')\n"
        "try: table.to_arrow()\n"
        "except ImportError: print(len(table))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, shop], capture_output=True, text=True, timeout=60)
    assert done.stdout == "300\n", done.stderr


def test_tables_from_several_threads(shop):
    """One thread makes the tables, and the others wait for them."""
    trace, rows = openetw.open(shop, index=False), []
    threads = [threading.Thread(target=lambda: rows.append(len(trace.table("events")))) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(rows) == 4 and len(set(rows)) == 1 and rows[0] >= 311


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_while_other_threads_work(shop):
    """What other threads hold when a process forks is not waited for in the child."""
    trace, events = openetw.open(*[shop] * 200, index=False), iter(openetw.open(*[shop] * 50))
    done = threading.Event()

    def work():
        trace.table("events")
        done.set()

    threads = [threading.Thread(target=work), threading.Thread(target=lambda: sum(1 for _ in events))]
    [thread.start() for thread in threads]
    time.sleep(0.01)
    children = 0
    while not done.is_set() or children < 3:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                events.close()
                with openetw.Provider("Example.Child"):
                    code = 0 if len(openetw.open(shop).table("events")) >= 311 else 2
                if children == 0:
                    code = code or (0 if len(trace.table("events")) >= 200 * 311 else 3)
                try:
                    next(events)
                    code = 4
                except openetw.ForkError:
                    pass
            finally:
                os._exit(code)
        children += 1
        deadline = time.monotonic() + 60
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline, "the child hangs"
            time.sleep(0.01)
        assert ended[1] == 0
    [thread.join() for thread in threads]


def test_everything_has_help():
    missing = []
    for name in openetw.__all__:
        thing = getattr(openetw, name)
        if not inspect.getdoc(thing):
            missing.append(name)
        if inspect.isclass(thing) and thing.__module__ == "openetw":
            members = (member for member in vars(thing).items() if not member[0].startswith("_"))
            missing += [f"{name}.{member}" for member, value in members if member != "code" and not inspect.getdoc(value)]
    assert [name for name in missing if name != "__version__"] == []
    text = subprocess.run([sys.executable, "-c", "import openetw; help(openetw)"], capture_output=True, timeout=60).stdout
    assert b"lazy" in text or b"decoded when they are read" in text


def test_reprs(shop):
    trace = openetw.open(shop)
    event = next(iter(trace.where("n == 7")))
    assert repr(trace) == f"<openetw.Trace {shop}>"
    assert repr(event).endswith("Example.Shop/Order n=7 worker=Bob price=1.75 items=[tea]>") or "n=7" in repr(event)
    assert "311" not in repr(trace.table(KIND)) and "300 rows" in repr(trace.table(KIND))
    assert repr(trace.statistics).startswith("Statistics(records=")


def test_damaged_traces_never_crash(shop, tmp_path):
    """Bytes of a trace are changed at random; everything is read that can be read."""
    import random

    whole, chance, opened = shop.read_bytes(), random.Random(7), 0
    used = len(whole.rstrip(b"\xff\0"))
    for round in range(60):
        data = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            place = chance.randrange(used)
            data[place : place + 4] = chance.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", chance.randbytes(4)))
        path = tmp_path / "damaged.etl"
        path.write_bytes(data)
        try:
            trace = openetw.open(path, index=False)
        except openetw.TraceError:
            continue
        opened += 1
        for event in trace:
            assert event.fields is not None and repr(event) and event.to_json()
            event.time, event.stack, event.message, event.error, event.activity_id
        trace.tables()
        if round % 10 == 0:
            trace.table("events")
    assert opened > 5
