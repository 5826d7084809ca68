#!/usr/bin/env bash
# Makes .bench, an environment with the frameworks that `just overhead` measures beside ours.
# They are no dependencies of ours, so they are not locked: the table prints their versions. Beside them what ours needs,
# so that a framework can be given our client.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
uv venv --quiet --allow-existing --python "$(command -v python3.11 || command -v python3)" .bench
uv pip install --quiet --python .bench -r pyproject.toml \
    langgraph langchain langchain-openai langchain-anthropic litellm langgraph-checkpoint-sqlite
