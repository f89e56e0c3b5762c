import asyncio
import datetime as dt
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest

import openetw

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sessions need Linux")


def test_events_go_from_provider_to_loop(name):
    with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
        with session.events(timeout=10) as events:
            assert provider.enabled()
            when = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.timezone.utc)
            fields = dict(
                text="grüße", number=-7, big=2**64 - 1, real=0.5, yes=True, raw=b"\0\1", when=when, who=uuid.UUID(int=5),
                numbers=[1, 2, 3], reals=(0.5, 1), texts=["a", "b"], place={"x": 1, "inner": {"y": "z"}},
            )
            assert provider.write("First", level=4, keyword=0x10, level_="kept", fields=fields)
            event = next(events)
            assert event.fields == {**fields, "reals": [0.5, 1.0], "level_": "kept"}
            assert (event.provider, event.name, event.kind) == (name, "First", f"{name}/First")
            assert (event.level, event.keyword, event.pid) == (4, 0x10, os.getpid())
            assert event["place.inner.y"] == "z"
        status = session.flush()
        assert status.events_written >= 1 and status.events_lost == 0 and status.state == "running"
    assert session.stop().state == "stopped" == session.status().state
    assert not provider.enabled() and provider.write("Late") is False


def test_timeouts_and_durations(name):
    with openetw.Session(name, providers=[name]) as session:
        events = session.events(timeout=0.2)
        start = time.monotonic()
        with pytest.raises(TimeoutError):
            next(events)
        assert 0.15 < time.monotonic() - start < 5
        with openetw.Provider(name) as provider:
            provider.write("Later", n=1)
            assert next(events)["n"] == 1
        start = time.monotonic()
        assert list(session.events(duration=0.3)) == []
        assert 0.25 < time.monotonic() - start < 5
        with pytest.raises(openetw.ArgumentError):
            session.events(timeout=-1)
        with pytest.raises(openetw.ArgumentError):
            session.events(duration=float("nan"))


def test_reading_ends_with_the_session(name):
    session = openetw.Session(name, providers=[name])
    session.start()
    provider = openetw.Provider(name)
    events = session.events()
    for n in range(1000):
        provider.write("Tick", n=n)
    threading.Timer(0.3, session.stop).start()
    assert [event["n"] for event in events if event.name == "Tick"] == list(range(1000))
    assert events.statistics.events_lost == 0


def test_async_iteration(name):
    async def read():
        with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
            events = session.events(timeout=10)

            async def write():
                for n in range(10):
                    provider.write("Tick", n=n)
                    await asyncio.sleep(0.01)

            writer = asyncio.create_task(write())
            found = []
            async for event in events:
                found.append(event["n"])
                if len(found) == 10:
                    break
            await writer
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(events.__aiter__().__anext__(), 0.3)
            return found

    assert asyncio.run(read()) == list(range(10))


def test_other_tasks_run_while_events_wait(name):
    async def read():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
            with session.events(timeout=10) as events:
                for n in range(5000):
                    provider.write("Tick", n=n)
                session.flush()
                ticking, found = asyncio.create_task(tick()), 0
                async for _ in events:
                    found += 1
                    if found == 5000:
                        break
                ticking.cancel()
        return ticks

    assert asyncio.run(read()) >= 5000 // 256


def test_cancelled_tasks_lose_no_event(name):
    async def read():
        found = []
        with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
            with session.events(timeout=10) as events:

                async def take():
                    async for event in events:
                        found.append(event["n"])

                for n in range(0, 20, 2):
                    task = asyncio.create_task(take())
                    provider.write("Tick", n=n)
                    await asyncio.sleep(0.01 * (n % 3))
                    task.cancel()
                    provider.write("Tick", n=n + 1)
                    with pytest.raises(asyncio.CancelledError):
                        await task
                session.flush()
                task = asyncio.create_task(take())
                while len(found) < 20 and not task.done():
                    await asyncio.sleep(0.01)
                task.cancel()
        return found

    assert asyncio.run(asyncio.wait_for(read(), 30)) == list(range(20))


def test_async_iteration_ends_and_raises(name):
    async def read():
        with openetw.Session(name, providers=[name]) as session:
            async for _ in session.events(duration=0.2):
                pass
            with pytest.raises(TimeoutError):
                async for _ in session.events(timeout=0.2):
                    pass

    asyncio.run(asyncio.wait_for(read(), 30))


def test_files_and_rings(name, tmp_path):
    file, dump = tmp_path / "a.etl", tmp_path / "b.etl"
    with openetw.Provider(name) as provider:
        with openetw.Session(name, providers=[f"{name}:Warning"], file=file) as session:
            provider.write("Kept", level=3, n=1)
            provider.write("Left", level=4, n=2)
        assert session.stop().events_written == 1
        assert [event["n"] for event in openetw.open(file).provider(name)] == [1]
        with openetw.Session(name, providers=[name], ring=1024) as session:
            provider.write("Kept", n=3)
            session.dump(dump)
        assert [event["n"] for event in openetw.open(dump).provider(name)] == [3]


def test_controller(name, tmp_path):
    with openetw.Session(name) as session:
        control = openetw.Controller()
        assert name in [status.name for status in control.sessions()]
        with openetw.Provider(name) as provider:
            assert name in [entry["name"] for entry in control.providers()]
            control.enable(name, name)
            assert provider.enabled()
            control.disable(name, name)
            assert not provider.enabled()
        assert control.update(name, flush_timer=2.0).name == name
        assert control.update(name, file=tmp_path / "a.etl").file == str(tmp_path / "a.etl")
        control.enable(name, name)
        with openetw.Provider(name) as provider:
            assert provider.write("Tick")
        control.capture_state(name, name)
        assert control.flush(name).events_written == 1
        assert control.query(name).pid == os.getpid()
        assert control.stop(name).state == "stopped"
        with pytest.raises(openetw.SessionError) as caught:
            control.query(name)
        assert caught.value.code == 4201
        assert session.stop() is None


def test_controller_dumps(name, tmp_path):
    with openetw.Provider(name) as provider, openetw.Session(name, providers=name, ring=1024):
        provider.write("Tick", n=5)
        openetw.Controller().dump(name, tmp_path / "a.etl")
    assert [event["n"] for event in openetw.open(tmp_path / "a.etl").provider(name)] == [5]


def test_detached_sessions_go_on(name, tmp_path):
    """The host is another process, as a daemon would be."""
    code = (
        "import openetw, sys\n"
        "with openetw.Session(sys.argv[1] + '.Host'):\n"
        "    print('ready', flush=True); sys.stdin.read()\n"
    )
    environment = {**os.environ, "OPENETW_RUNTIME_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code, name]
    host = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert host.stdout.readline() == "ready\n"
        code = (
            "import openetw, sys\n"
            "for name in sys.argv[1:]:\n"
            "    session = openetw.Session(name, detached=name.endswith('.Detached'))\n"
            "    session.start()\n"
            "    del session\n"
            "print(sorted(status.name for status in openetw.Controller().sessions()))\n"
        )
        command = [sys.executable, "-c", code, name, name + ".Detached"]
        run = lambda: subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        assert run().stdout == f"{[name + '.Detached', name + '.Host']}\n"
        assert "openetw.SessionError" in run().stderr
    finally:
        host.stdin.close()
        assert host.wait(timeout=20) == 0


def test_a_program_that_ends_leaves_a_whole_file(name, tmp_path):
    code = (
        "import openetw, sys\n"
        "session = openetw.Session(sys.argv[1], providers=[sys.argv[1]], file=sys.argv[2])\n"
        "session.start()\n"
        "provider = openetw.Provider(sys.argv[1])\n"
        "for n in range(100): provider.write('Tick', n=n)\n"
    )
    file = tmp_path / "a.etl"
    subprocess.run([sys.executable, "-c", code, name, file], check=True, timeout=60)
    assert [event["n"] for event in openetw.open(file).provider(name)] == list(range(100))


def test_providers_and_hosts_that_come_and_go(name):
    """Providers from before the host are connected when a session has started."""
    with openetw.Provider(name) as early:
        for _ in range(10):
            with openetw.Session(name, providers=[name]) as session:
                with openetw.Provider(name + ".Late") as late:
                    session.enable(late.name)
                    assert early.write("Tick") and late.write("Tick")
            assert not early.enabled()


def test_two_sessions_and_the_same_name(name):
    with openetw.Session(name) as first, openetw.Session(name + "2") as second:
        assert first.status().name != second.status().name
        with pytest.raises(openetw.SessionError) as caught:
            openetw.Session(name).start()
        assert caught.value.code == 183
        with pytest.raises(openetw.SessionError):
            first.start()


def test_logging(name):
    log = logging.getLogger(name)
    log.propagate = False
    handler = openetw.LogHandler(name)
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    with openetw.Session(name, providers=[name]) as session, session.events(timeout=10) as events:
        log.warning("%d files are missing", 3)
        event = next(events)
        assert (event.level, event["target"], event["message"]) == (3, name, "3 files are missing")
        assert "test_sessions.py:" in event["source"]
        try:
            1 / 0
        except ZeroDivisionError:
            log.exception("failed")
        event = next(events)
        assert event.level == 2 and "ZeroDivisionError" in event["exception"]
    log.removeHandler(handler)
    handler.close()
    with openetw.Session(name, providers=[name]):
        assert not handler.provider.enabled()
        provider = openetw.Provider(name)
        openetw.LogHandler(provider).close()
        assert provider.enabled()


def test_logging_by_a_dictionary(name):
    import logging.config

    handlers = {"etw": {"class": "openetw.LogHandler", "provider": name, "level": "WARNING"}}
    loggers = {name: {"handlers": ["etw"], "level": "DEBUG", "propagate": False}}
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False, "handlers": handlers, "loggers": loggers})
    with openetw.Session(name, providers=[name]) as session, session.events(timeout=10) as events:
        logging.getLogger(name).info("left out")
        logging.getLogger(name).critical("kept")
        event = next(events)
        assert (event.level, event["message"]) == (1, "kept")


def test_activities(name):
    with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
        with session.events(timeout=10) as events:
            with openetw.activity() as outer:
                provider.write("One")
                with openetw.activity() as inner:
                    provider.write("Two", related=outer)
            provider.write("Three", activity=str(inner))
            one, two, three = next(events), next(events), next(events)
    assert one.activity_id == outer and two.activity_id == inner == three.activity_id
    assert two.related_activity_id == outer and inner != outer


def test_listen_to_a_session_of_another(name):
    with openetw.Session(name, providers=[name]), openetw.Provider(name) as provider:
        with openetw.listen(name, where="n == 2", timeout=10) as events:
            provider.write("Tick", n=1)
            provider.write("Tick", n=2)
            assert next(events)["n"] == 2


def test_ctrl_c_ends_a_loop_that_waits(name):
    code = (
        "import openetw, sys\n"
        "with openetw.Session(sys.argv[1], providers=[sys.argv[1]]) as session:\n"
        "    events = session.events()\n"
        "    print('ready', flush=True)\n"
        "    try:\n"
        "        for event in events: pass\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, name], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "interrupted\n"
    assert process.returncode == 0


def test_slow_loops_lose_events_but_count_them(name):
    with openetw.Session(name, providers=[name]) as session, openetw.Provider(name) as provider:
        events = session.events(timeout=2)
        written = sum(provider.write("Tick", n=n, text="x" * 1000) for n in range(200_000))
        session.flush()
        read = 0
        with pytest.raises(TimeoutError):
            for event in events:
                read += event.name == "Tick"
        status = session.status()
        assert written + status.events_lost == 200_000
        assert read + status.real_time_events_lost == written


@pytest.mark.parametrize(
    "use, error",
    [
        (lambda name: openetw.Session(name, mode="round"), openetw.ArgumentError),
        (lambda name: openetw.Session(name, clock="sun"), openetw.ArgumentError),
        (lambda name: openetw.Session(name, kernel="NOTHING"), openetw.ArgumentError),
        (lambda name: openetw.Session(name, kernel=7), TypeError),
        (lambda name: openetw.Session(name, kernel_stacks="NOTHING"), openetw.ArgumentError),
        (lambda name: openetw.Session(name, sample_interval=5), openetw.ArgumentError),
        (lambda name: openetw.Session(name, nothing=1), TypeError),
        (lambda name: openetw.Session(name, providers=[":::::"]), openetw.ArgumentError),
        (lambda name: openetw.Session(name, providers=7), TypeError),
        (lambda name: openetw.Session(name, flush_timer=-1), openetw.ArgumentError),
        (lambda name: openetw.Session("").start(), openetw.SessionError),
        (lambda name: openetw.Session(name, buffer_size=3).start(), openetw.SessionError),
        (lambda name: openetw.Session(name, file="/nowhere/a.etl").start(), openetw.SessionError),
        (lambda name: openetw.Session(name).status(), openetw.SessionError),
        (lambda name: openetw.Session(name).events(), openetw.SessionError),
        (lambda name: openetw.listen(name), openetw.SessionError),
        (lambda name: openetw.listen(), openetw.ArgumentError),
        (lambda name: openetw.Provider(""), openetw.ArgumentError),
        (lambda name: openetw.Provider(name, guid="x"), openetw.ArgumentError),
        (lambda name: openetw.Provider(7), TypeError),
    ],
)
def test_wrong_arguments_raise(name, use, error):
    with pytest.raises(error):
        use(name)


@pytest.mark.parametrize(
    "value, error",
    [
        (object(), TypeError),
        (None, TypeError),
        (2**64, openetw.ArgumentError),
        ([1, "a"], TypeError),
        ([None], TypeError),
        ({}, openetw.ArgumentError),
        ({1: 2}, TypeError),
    ],
)
def test_wrong_values_raise(name, value, error):
    with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]):
        with pytest.raises(error):
            provider.write("Wrong", x=value)
        deep = {}
        for _ in range(100):
            deep = {"x": deep}
        with pytest.raises(openetw.ArgumentError):
            provider.write("Wrong", x=deep)
        assert provider.write("Long", x="y" * 100_000) is False
        with pytest.raises(OverflowError):
            provider.write("Wrong", level=300)


def test_providers_work_in_the_child_of_a_fork(name):
    with openetw.Provider(name) as provider, openetw.Session(name, providers=[name]) as session:
        with session.events(timeout=10) as events:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    for _ in range(100):
                        if provider.write("Child", n=5):
                            code = 0
                            break
                        time.sleep(0.05)
                    try:
                        session.status()
                        code = 2
                    except openetw.ForkError:
                        pass
                finally:
                    os._exit(code)
            _, status = os.waitpid(child, 0)
            assert status == 0
            event = next(events)
            assert event["n"] == 5 and event.pid == child
        assert session.status().state == "running"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="kernel events need root")
def test_kernel_session_in_a_file(name, tmp_path):
    file = tmp_path / "kernel.etl"
    options = {"kernel": "PROC_THREAD+LOADER+CSWITCH+PROFILE", "kernel_stacks": ["CSwitch", "Profile"]}
    try:
        with openetw.Session(name, file=file, sample_interval=0.001, **options) as session:
            missing = session.status().missing
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass
    except openetw.SessionError as error:
        pytest.skip(str(error))
    if missing:
        pytest.skip(str(missing))
    trace = openetw.open(file, process_names=True)
    kinds = trace.kinds()
    assert kinds["Thread/CSwitch"] > 0 and kinds["StackWalk/Stack"] > 0
    if "PerfInfo/SampleProfile" not in kinds:
        pytest.skip("this machine has no samples")
    pytest.importorskip("pyarrow")
    rows = trace.pivot("cpu_sampled", ["process"], ["sum(weight)"]).to_arrow().to_pylist()
    assert any("python" in (row["process"] or "") for row in rows), rows


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="kernel events need root")
def test_kernel_session(name):
    try:
        session = openetw.Session(name, kernel=["PROC_THREAD", "LOADER"])
        session.start()
    except openetw.SessionError as error:
        pytest.skip(str(error))
    with session.events(duration=5, where="class == Process and event == Process/Start") as events:
        if session.status().missing:
            pytest.skip(str(session.status().missing))
        child = subprocess.Popen(["/bin/true"])
        child.wait()
        assert any(event["ProcessId"] == child.pid for event in events)
    session.stop()
