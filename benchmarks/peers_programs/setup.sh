#!/usr/bin/env bash
# Makes .bench/programs, an environment with the systems that `just beside-peers` runs beside ours.
# They are no dependencies of ours, so they are not locked: the table prints their versions.
set -euo pipefail
cd "$(dirname "$0")/../.."
PATH="$PWD/.venv/bin:$PATH"
python="$(command -v python3.11 || command -v python3)"
uv venv --quiet --allow-existing --python "$python" .bench/programs
uv pip install --quiet --python .bench/programs \
    'pydantic-ai-harness[codemode,dynamic-workflow]' 'pydantic-ai-slim[openai,dbos]'
