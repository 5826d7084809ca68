#!/usr/bin/env bash
# Makes .bench/speedups, an environment with the frameworks that `just speedups` runs beside ours.
# They are no dependencies of ours, so they are not locked: the table prints their versions.
# applang 0.2.2 names neither termcolor's bound nor mcp, which its litellm wants once tools are sent.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH="$PWD/.venv/bin:$PATH"
python="$(command -v python3.11 || command -v python3)"
uv venv --quiet --allow-existing --python "$python" .bench/speedups
uv pip install --quiet --python .bench/speedups \
    langgraph langchain langchain-openai applang 'termcolor<3' mcp
