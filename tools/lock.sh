#!/usr/bin/env bash
# Writes the pinned, hashed lock files; `just lock` after a change of dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
compile() {
    local out=locks/$1.txt
    shift
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --custom-compile-command "just lock" --output-file "$out" "$@"
}
echo uv | compile uv -
compile core pyproject.toml
compile dev pyproject.toml --group dev --group oracles --extra bedrock --extra vertex --extra pydantic-ai --extra otel --extra otel-grpc --extra http --extra lsp --extra mcp --extra postgres --extra temporal --extra tui --extra yaml --extra server --extra grpc --extra redis --extra map --extra prove --extra native --extra tokenizers
compile all pyproject.toml --all-extras
compile release --group release
compile e2e --group e2e
compile weights --group weights --no-deps
