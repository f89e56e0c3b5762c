"""Checks what no schema can: scripts that workflows run exist, every check of `cargo xtask ci` has a job, directories of
dependabot.yml exist, and rules for all workflows. check-workflows.sh starts it."""

import os
import pathlib
import re
import shlex
import sys

from ruamel.yaml import YAML

# The actions that are used, all by their major version; a further one is a decision.
ACTIONS = {
    "PyO3/maturin-action",
    "Swatinem/rust-cache",
    "actions/attest-build-provenance",
    "actions/checkout",
    "actions/download-artifact",
    "actions/setup-node",
    "actions/setup-python",
    "actions/upload-artifact",
    "dtolnay/rust-toolchain",
    "taiki-e/install-action",
}
# The file with the dependencies of each kind.
MANIFESTS = {"cargo": "Cargo.toml", "npm": "package.json", "pip": "requirements.txt", "github-actions": ".github/workflows"}

ROOT = pathlib.Path(__file__).resolve().parents[2]
problems = []


def load(path):
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def check_workflow(path):
    """Checks one workflow, and returns the names of checks that its matrices have."""
    workflow, stages = load(path), set()
    if workflow.get("permissions") != {"contents": "read"}:
        problems.append(f"{path.name}: jobs that say nothing must only read the repository")
    for name, job in workflow["jobs"].items():
        where = f"{path.name}: {name}"
        if "timeout-minutes" not in job:
            problems.append(f"{where}: no timeout-minutes")
        stages.update(job.get("strategy", {}).get("matrix", {}).get("stage", []))
        for step in job["steps"]:
            check_step(where, step)
    return stages


def check_step(where, step):
    if "uses" in step:
        action, _, version = step["uses"].partition("@")
        if action not in ACTIONS or not re.fullmatch(r"v\d+", version):
            problems.append(f"{where}: {step['uses']} is not in the list of actions, or has no major version")
        if action == "actions/checkout" and step.get("with", {}).get("persist-credentials") is not False:
            problems.append(f"{where}: the checkout keeps its credentials")
        return
    scripts = re.findall(r"scripts/[\w./-]+", step["run"])
    if not scripts:
        problems.append(f"{where}: `{step['run']}` is no script of the repository")
    if "${{" in step["run"]:
        problems.append(f"{where}: an expression in a command; pass it in `env`")
    for script in scripts:
        file = ROOT / script
        if not file.is_file():
            problems.append(f"{where}: there is no {script}")
        elif file.suffix == ".sh" and not os.access(file, os.X_OK):
            problems.append(f"{where}: {script} is not executable")


def run_by_scripts():
    """Returns the checks that scripts run by their names."""
    found = set()
    for script in (ROOT / "scripts/ci").glob("*.sh"):
        text = script.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in text.splitlines():
            if re.match(r"\s*checks [\"\w]", line):
                found.update(word for word in shlex.split(line, comments=True)[1:] if "$" not in word)
    return found


def check_stages(of_matrices):
    source = (ROOT / "xtask/src/ci.rs").read_text(encoding="utf-8")
    known = set(re.findall(r"\b(?:stage|of_build)\(\s*\"([^\"]+)\"", source))
    if not known:
        problems.append("xtask/src/ci.rs: no checks are found")
    ran = of_matrices | run_by_scripts()
    problems.extend(f"no job runs the check `{name}` of `cargo xtask ci`" for name in sorted(known - ran))
    problems.extend(f"`cargo xtask ci` has no check `{name}`" for name in sorted(ran - known))


def check_dependabot(path):
    for update in load(path)["updates"]:
        kind = update["package-ecosystem"]
        for directory in update.get("directories") or [update["directory"]]:
            if not (ROOT / directory.lstrip("/") / MANIFESTS[kind]).exists():
                problems.append(f"{path.name}: no {MANIFESTS[kind]} in {directory}")


def main():
    stages = set()
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        stages |= check_workflow(path)
    check_stages(stages)
    check_dependabot(ROOT / ".github/dependabot.yml")
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    sys.exit(bool(problems))


main()
