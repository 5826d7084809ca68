"""Files that are sent along with a prompt."""

import mimetypes
from pathlib import Path

from vegakit.conversation import Media
from vegakit.errors import UserError

__all__ = ["read_media"]

_MAX_BYTES = 20_000_000


def read_media(path: str | Path) -> Media:
    file = Path(path)
    kind, _ = mimetypes.guess_type(file.name)
    if kind is None:
        raise UserError(f"{file}: its ending does not say what it is; name it like photo.png")
    if not file.is_file():
        raise UserError(f"{file} is not a file; files= takes paths of files that exist")
    if (size := file.stat().st_size) > _MAX_BYTES:
        raise UserError(f"{file} has {size:,} bytes; at most {_MAX_BYTES:,} can be sent")
    return Media(kind, file.read_bytes())
