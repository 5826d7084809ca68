"""What is made once in a run of the tests, and used by all workers of xdist."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.patience import wait_until

MADE_WITHIN_S = 300.0


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first worker to ask makes, and for which the others wait."""
    folder = Path(os.environ["VEGA_TESTS_SHARED"]) / name
    done, failed = folder.with_suffix(".done"), folder.with_suffix(".failed")
    try:
        folder.mkdir()
    except FileExistsError:
        wait_until(lambda: done.exists() or failed.exists(), MADE_WITHIN_S)
        assert done.exists(), f"another worker could not make {name}: {failed.read_text()}"
        return folder
    try:
        make(folder)
    except BaseException as error:
        failed.write_text(repr(error))
        raise
    done.touch()
    return folder
