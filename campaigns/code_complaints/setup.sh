#!/usr/bin/env bash
# Puts the newest of each rival into a cache folder outside of the repository, each in a folder of its own.
# They are no dependencies of ours, so they are not locked: the table prints their versions. What npm cannot
# install is named, and left out of the table.
set -uo pipefail
cache="${XDG_CACHE_HOME:-$HOME/.cache}/vega-rivals"
command -v npm >/dev/null || { echo "no rival is installed: npm is not here"; exit 0; }
while read -r name package; do
    test -x "$cache/$name/node_modules/.bin/$name" && continue
    mkdir -p "$cache/$name"
    # The newest may want a newer Node, or parts that the index lacks: then npm chooses what fits.
    for version in @latest ""; do
        npm install --prefix "$cache/$name" --no-fund --no-audit "$package$version" >"$cache/$name/log" 2>&1 && break
    done
    test -x "$cache/$name/node_modules/.bin/$name" || echo "not installed: $package; see $cache/$name/log"
done <<'LIST'
claude @anthropic-ai/claude-code
codex @openai/codex
opencode opencode-ai
gemini @google/gemini-cli
pi @earendil-works/pi-coding-agent
LIST
