"""Effect rows: what every function, tool and agent of a program may touch, known before it runs."""

from vegakit.lang.rows.manifest import AgentLine, Manifest, manifest_of
from vegakit.lang.rows.paths import paths_touch
from vegakit.lang.rows.program import effects_of
from vegakit.lang.rows.records import Class, Effects, conflict

__all__ = [
    "AgentLine",
    "Class",
    "Effects",
    "Manifest",
    "conflict",
    "effects_of",
    "manifest_of",
    "paths_touch",
]
