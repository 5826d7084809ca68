"""The protocols of providers as codecs: a request to bytes, bytes and events to our records (pure).

    ModelRequest ──encode──▶ bytes … bytes ──decode / reader──▶ ModelReply, chunks

One module a format, or two where it is long. Each is used from both ends: `providers` asks with it,
the test provider answers with it. Nothing here opens a socket, reads a clock or knows a key. A
codec is loaded when its name is first used, since a program speaks to few of them.
"""

from vegakit.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__spec__)
