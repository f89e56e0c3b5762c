import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize("checker", ["mypy", "pyright", "mypy.stubtest"])
def test_types(checker):
    pytest.importorskip(checker.split(".")[0])
    command = [sys.executable, "-m", checker]
    if checker == "mypy.stubtest":
        # Signatures of the native module as it is, against the stubs.
        allowed = ROOT / "tests" / "stubtest-allow.txt"
        command += ["openetw._native", "--allowlist", str(allowed), "--ignore-unused-allowlist", "--ignore-disjoint-bases"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_have_the_docs_of_the_module():
    command = [sys.executable, "tools/stub_docs.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
