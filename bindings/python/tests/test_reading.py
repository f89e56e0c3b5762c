import datetime as dt
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings

import pytest

import openetw
from conftest import real


def test_events_are_light_and_complete(network):
    trace = openetw.open(network)
    events = list(trace)
    assert len(events) == 8924 == trace.statistics.records
    assert trace.statistics.is_complete and trace.names == [str(network)]
    event = events[5]
    assert event.provider == "Microsoft-Windows-Kernel-Network"
    assert event.provider_id == uuid.UUID("7dd42a49-5329-4832-8dfd-43d979153a88")
    assert event.kind.startswith("Microsoft-Windows-Kernel-Network/")
    assert event.time.tzinfo is not None and event.time.year >= 2010
    assert event.time_ns // 1000 == round(event.time.timestamp() * 1e6)
    assert list(event) == event.keys() == list(event.fields) and len(event) == len(event.keys())
    assert event["PID"] == event.get("PID") == dict(event)["PID"] == dict(event.items())["PID"]
    assert "PID" in event and "Nothing" not in event and event.get("Nothing", 7) == 7
    assert event.error is None and event.to_json().startswith('{"') and "PID=" in repr(event)
    assert all(a.time_ns <= b.time_ns for a, b in zip(events, events[1:]))
    with pytest.raises(KeyError):
        event["Nothing"]
    with pytest.raises(KeyError):
        event.text("Nothing")


def test_values_have_python_types(primitives):
    found = {}
    for event in openetw.open(primitives):
        for field, value in event.items():
            found.setdefault(type(value), (field, value))
    assert {int, str, bool, dict, dt.datetime} <= set(found), found


def test_filters_are_applied_while_reading(network):
    trace = openetw.open(network)
    everything = [event for event in trace if event.get("PID") == 4]
    filtered = list(trace.where("PID == 4"))
    assert len(filtered) == len(everything) > 0
    assert len(list(trace.limit(10))) == 10
    assert len(list(trace.provider("Microsoft-Windows-Kernel-Network"))) == 8923
    start = next(iter(trace.where("PID == 4"))).time
    middle = trace.start + (trace.end - trace.start) / 2
    seconds = (middle - trace.start).total_seconds()
    early = len(list(trace.between(end=middle)))
    late = len(list(trace.between(start=middle.isoformat())))
    assert early + late == 8924 and early == pytest.approx(len(list(trace.between(end=seconds))), abs=2)
    assert isinstance(start, dt.datetime)


def test_several_files_are_merged(net, network):
    both = openetw.open(net, network)
    assert len(both.names) == 2
    assert sum(both.kinds().values()) == sum(openetw.open(net).kinds().values()) + 8924


def test_kinds_count_all_events(net):
    kinds = openetw.open(net).kinds()
    assert sum(kinds.values()) == 179474
    assert kinds["PerfInfo/SampleProfile"] == 79528


def test_process_names_and_schemas(net, tmp_path):
    names = {event.process for event in openetw.open(net, process_names=True).limit(20_000)}
    assert any(name and name.lower().endswith(".exe") for name in names)
    manifest = real("../manifests")
    assert openetw.open(net, schemas=[manifest]).limit(5).kinds()
    by_name = openetw.open(net).where("process icontains '.exe' or process icontains 'a'").limit(3)
    assert len(list(by_name)) == 3


def test_conditions_on_stacks(net):
    trace = openetw.open(net)
    some = list(trace.where("event == PerfInfo/SampleProfile and stack contains 'ntoskrnl'").limit(5))
    assert all(event.kind == "PerfInfo/SampleProfile" for event in some)


def test_misspelt_fields_in_filters_are_warned_of(shop):
    trace = openetw.open(shop)
    with pytest.warns(RuntimeWarning, match="has the field 'wroker'"):
        assert list(trace.where("event == Order and wroker == Ada")) == []
    with pytest.warns(RuntimeWarning, match="'wroker'"):
        assert trace.table("Example.Shop/Order", where="wroker == Ada").num_rows == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(trace.where("worker == Ada"))) == 150
        assert list(trace.where("event == Nowhere and wroker == Ada")) == [], "no event was asked"


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda trace: openetw.open(), openetw.ArgumentError),
        (lambda trace: openetw.open("missing.etl"), openetw.TraceNotFoundError),
        (lambda trace: openetw.open("missing.etl"), FileNotFoundError),
        (lambda trace: openetw.open(os.path.dirname(__file__)), openetw.TraceError),
        (lambda trace: openetw.open(__file__), openetw.TraceError),
        (lambda trace: openetw.open(7), TypeError),
        (lambda trace: openetw.open(trace.names[0], schemas=["missing.man"]), openetw.ArgumentError),
        (lambda trace: trace.where("pid =="), openetw.FilterError),
        (lambda trace: trace.where("pid =="), ValueError),
        (lambda trace: trace.where(7), TypeError),
        (lambda trace: trace.provider("Name:NoSuchLevel"), openetw.ArgumentError),
        (lambda trace: trace.between("yesterday"), openetw.ArgumentError),
        (lambda trace: trace.between(5, 1), openetw.ArgumentError),
        (lambda trace: trace.between(dt.datetime(2020, 1, 1)), openetw.ArgumentError),
        (lambda trace: trace.between(object()), TypeError),
        (lambda trace: trace.limit(-1), OverflowError),
        (lambda trace: trace.table("nothing"), openetw.ArgumentError),
        (lambda trace: trace.table("Nothing/Nothing"), openetw.ArgumentError),
        (lambda trace: trace.table("disk", ["nothing"]), openetw.ArgumentError),
        (lambda trace: trace.table("disk", []), openetw.ArgumentError),
        (lambda trace: trace.table("disk", where="nothing == 1"), openetw.FilterError),
        (lambda trace: trace.where("pid == 4").table("disk"), openetw.ArgumentError),
        (lambda trace: trace.pivot("disk", ["nothing"]), openetw.ArgumentError),
        (lambda trace: trace.pivot("disk", ["disk"], ["size"]), openetw.ArgumentError),
        (lambda trace: trace.pivot("disk", ["disk"], ["sum(operation)"]), openetw.ArgumentError),
        (lambda trace: trace.pivot("disk", ["disk"], ["p101(size)"]), openetw.ArgumentError),
        (lambda trace: trace.pivot("disk", ["disk"], sort="nothing"), openetw.ArgumentError),
        (lambda trace: openetw.Event(), TypeError),
        (lambda trace: openetw.Table(), TypeError),
    ],
)
def test_wrong_arguments_raise(network, use, error):
    with pytest.raises(error):
        use(openetw.open(network))


def test_errors_carry_codes(network):
    with pytest.raises(openetw.Error) as caught:
        openetw.open("missing.etl")
    assert caught.value.code == 2
    with pytest.raises(openetw.Error, match="column 7") as caught:
        openetw.open(network).where("pid ==")
    assert caught.value.code == 87


def test_damaged_files_are_read(network, tmp_path):
    data = network.read_bytes()
    for size in (0, 10, 100, 5000, len(data) // 2):
        path = tmp_path / f"{size}.etl"
        path.write_bytes(data[:size])
        try:
            trace = openetw.open(path)
        except openetw.TraceError:
            continue
        assert all(event.fields is not None for event in trace)


def test_iteration_ends_early_and_in_threads(net):
    for _ in range(20):
        for event in openetw.open(net):
            break
    with iter(openetw.open(net)) as events:
        counts = [0, 0]

        def count(number):
            for event in events:
                counts[number] += 1

        threads = [threading.Thread(target=count, args=(number,)) for number in (0, 1)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sum(counts) == 179474
    events.close()
    assert list(events) == []


def test_ctrl_c_interrupts_native_work(net):
    """The files are read as one trace many times, so that it takes long."""
    code = (
        "import openetw, signal, sys\n"
        # Ignored, and inherited so, if the tests run in the background.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "trace = openetw.open(*[sys.argv[1]] * 60)\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    for _ in range(100): trace.kinds()\n"
        "    print('too fast')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(net)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert process.communicate(timeout=60)[0] == "interrupted\n"
        assert time.monotonic() - start < 20
    finally:
        process.kill()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_fork_is_detected(net):
    events = iter(openetw.open(net))
    next(events)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in events:
                pass
        except openetw.ForkError:
            # A trace that is opened in the child works.
            code = 0 if sum(1 for _ in openetw.open(net).limit(100)) == 100 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 if hasattr(os, "waitstatus_to_exitcode") else True
    assert sum(1 for _ in events) == 179474 - 1


def test_threads_run_meanwhile(net):
    """The GIL is free while native code reads."""
    ticks, done = [0], threading.Event()

    def tick():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    openetw.open(*[net] * 5).kinds()
    done.set()
    thread.join()
    assert ticks[0] > 5
