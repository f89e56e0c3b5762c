"""The notebooks and the bench run."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


def run(script, *arguments):
    command = [sys.executable, str(ROOT / script), *map(str, arguments)]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def check_plot(path):
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


@pytest.mark.skipif(sys.platform != "linux", reason="sessions need Linux")
def test_notebook_of_a_program(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    done = run("examples/orders.py", tmp_path / "plot.png")
    check_plot(tmp_path / "plot.png")
    assert "300 events, 0 lost" in done.stdout


def test_notebook_of_a_machine(net, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    run("examples/cpu_by_process.py", net, tmp_path / "plot.png")
    check_plot(tmp_path / "plot.png")


def test_bench_runs(shop):
    done = run("bench/read.py", shop, "--rounds", 1, "--seconds", 1, "--json")
    rows = {row["name"]: row["events"] for row in json.loads(done.stdout)}
    # What a file has in its header are events too.
    events = rows["loop"]
    assert events == rows["loop_header"] == rows["loop_fields"] == rows["arrow"] and 311 < events < 320
    for peer, module in (("dissect", "dissect.etl"), ("etl_parser", "etl.etl"), ("pywintrace", "libopenetw.so")):
        if peer not in rows:
            print(f"{module} is missing or cannot read the file:", done.stderr)
    if "pywintrace" in rows:
        assert rows["pywintrace"] == events


def test_pywintrace_like_code_decodes(shop):
    sys.path.insert(0, str(ROOT / "bench"))
    from ctypes_tdh import Reader, library

    try:
        library()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    events = []
    Reader(shop, events.append)
    order = next(fields for fields in events if fields.get("n") == "7")
    assert order["worker"] == "Bob" and order["items"] == ["tea"]
