#!/usr/bin/env bash
# Builds the wheel, installs it with the hashed core lock in an empty environment, and uses it there.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
uv build --quiet --wheel --no-build-isolation --python "$(command -v python)" --out-dir "$place/dist"
uv venv --quiet --python "$(command -v python)" "$place/env"
uv pip install --quiet --python "$place/env" --require-hashes -r locks/core.txt
uv pip install --quiet --python "$place/env" --no-deps "$place"/dist/*.whl
cd "$place"
env/bin/vega --version
test "$(env/bin/vega --version)" = "$(env/bin/vegakit --version)"
test "$(env/bin/python -c 'import vegakit, vegakit.policy; print(vegakit.Dollars("$1.50"))')" = '$1.50'
# Without the extra it says what to type.
(env/bin/vega serve 2>&1 || true) | grep -q "pip install 'vegakit\[server\]'"
uv pip list --quiet --python env
