"""Installs the wheel, or the source package, that is in a directory, and reads small traces with it: try_wheel.py DIR"""

import pathlib
import subprocess
import sys
import tempfile
import venv

# The seeds of the fuzz targets are small traces of each kind.
TRACES = pathlib.Path(__file__).resolve().parents[2] / "fuzz" / "seeds" / "etl_file"

READ = """
import pathlib, sys
import openetw
decoded = 0
for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    events = list(openetw.open(path))
    assert events, f"no events in {path}"
    decoded += sum(event.error is None for event in events)
    print(path.name, len(events), "events")
assert decoded, "no event was decoded"
"""


def main(directory):
    packages = [path for path in directory.iterdir() if path.name.endswith((".whl", ".tar.gz"))]
    if len(packages) != 1:
        sys.exit(f"{len(packages)} packages in {directory}, not one")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = pathlib.Path(folder, *(("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")))
        subprocess.run([python, "-m", "pip", "install", "--quiet", packages[0]], check=True)
        # Not from the root of the workspace, where nothing of the package may be found by chance.
        subprocess.run([python, "-c", READ, TRACES], check=True, cwd=folder)


main(pathlib.Path(sys.argv[1]).resolve())
