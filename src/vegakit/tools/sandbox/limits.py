"""How much a command may take, and what is left of what it says."""

from msgspec import Struct

__all__ = ["DEFAULT_LIMITS", "Limits"]

_MB = 1 << 20


class Limits(Struct, frozen=True):
    """Memory and processes are those of the whole tree: control groups count them, or rlimits bound
    each process and the tree is weighed a few times a second. `file_bytes` bounds one file,
    `disk_bytes` and `entries` what the disk may lose while it runs. When commands have left more
    than `left_bytes` in the workspace, or `entries`, the next is refused. Who writes more than
    `output_bytes` is ended; of each stream the first and the last half of `kept_bytes` are kept."""

    wall_ms: int = 120_000
    cpu_s: int = 600
    memory_bytes: int = 1024 * _MB
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 256 * _MB
    disk_bytes: int = 1024 * _MB
    left_bytes: int = 4096 * _MB
    entries: int = 500_000
    output_bytes: int = 10_000_000
    kept_bytes: int = 64_000


DEFAULT_LIMITS = Limits()
