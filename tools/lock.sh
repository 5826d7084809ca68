#!/usr/bin/env bash
# Writes the pinned, hashed lock files; `just lock` after a change of dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    local out=locks/$1.txt
    shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "just lock" --output-file "$out" pyproject.toml "$@"
}
echo uv | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --custom-compile-command "just lock" --output-file locks/uv.txt -
compile core
compile dev --group dev
compile all --all-extras
compile e2e --group dev --group e2e
