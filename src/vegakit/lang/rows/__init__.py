"""Effect rows: what every function, tool and agent of a program may touch, known before it runs."""

from vegakit.lang.rows.bytecode import ModuleRows
from vegakit.lang.rows.manifest import AgentLine, Manifest, manifest_of
from vegakit.lang.rows.paths import paths_touch
from vegakit.lang.rows.program import effects_of
from vegakit.lang.rows.records import NOTHING_TOUCHED, Class, Effects, conflict, joined

__all__ = [
    "NOTHING_TOUCHED",
    "AgentLine",
    "Class",
    "Effects",
    "Manifest",
    "ModuleRows",
    "conflict",
    "effects_of",
    "joined",
    "manifest_of",
    "paths_touch",
]
