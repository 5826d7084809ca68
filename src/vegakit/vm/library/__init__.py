"""The pure functions of the standard library: `PURE` by name, called by `call_pure`."""

from vegakit.vm.library import lists as _lists  # noqa: F401  # pyright: ignore[reportUnusedImport]
from vegakit.vm.library import numbers as _numbers  # noqa: F401  # pyright: ignore[reportUnusedImport]
from vegakit.vm.library import strings as _strings  # noqa: F401  # pyright: ignore[reportUnusedImport]
from vegakit.vm.library.table import PURE, call_pure

__all__ = ["PURE", "call_pure"]
