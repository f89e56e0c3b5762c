import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def test_notebook_draws_a_plot(net, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    output = tmp_path / "plot.png"
    command = [sys.executable, str(EXAMPLES / "notebook.py"), str(net), str(output)]
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes().startswith(b"\x89PNG") and output.stat().st_size > 5000
