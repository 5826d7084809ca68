"""Operations on a running system: tables, their records, and the clients of a socket and of a
kernel that is served (host).

Each part is loaded when it is first used: the records need no event loop, and the client of a
socket needs no program machine.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
