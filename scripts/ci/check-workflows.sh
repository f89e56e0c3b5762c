#!/bin/sh
# Checks the workflows and dependabot.yml against their published schemas, and what workflows.py says. It needs Python.
set -eu
cd "$(dirname "$0")/../.."

venv=${CARGO_TARGET_DIR:-target}/ci/workflows
wanted=check-jsonschema==0.39.0
if ! "$venv/bin/python" -m pip show -q check-jsonschema 2>/dev/null; then
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -q "$wanted"
fi

"$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$venv/bin/check-jsonschema" --builtin-schema vendor.dependabot .github/dependabot.yml
for script in scripts/ci/*.sh; do
    sh -n "$script"
done
# `ruamel.yaml` is what check-jsonschema reads YAML with.
"$venv/bin/python" scripts/ci/workflows.py
