"""Builds what is released, and looks at it before anybody can install it.

    python tools/release.py https://code.example/vega dist

The address of the repository is given, not written down: a fork releases under its own. In a copy
of the tree it becomes the project's URLs, and the links of README.md, which would lead nowhere on a
package index, become absolute. The source distribution and the wheel are built there: the same
bytes come from any folder at any time, and the source distribution makes the same wheel.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHIPPED = ("LICENSE", "README.md", "pyproject.toml", "src")
PAGES = {
    "Homepage": "",
    "Documentation": "/blob/v{version}/docs/README.md",
    "Changelog": "/blob/v{version}/CHANGELOG.md",
    "Issues": "/issues",
}
LINK = re.compile(r"(!?)\]\((?!https?://|#|mailto:)([^)\s]+)\)")


def prepared(url: str, folder: Path) -> Path:
    """Copy what is shipped to a folder, with the address where it has to be."""
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)
    project, readme = folder / "pyproject.toml", folder / "README.md"
    text = project.read_text(encoding="utf-8")
    version = tomllib.loads(text)["project"]["version"]
    rows = [f'{name} = "{url}{page.format(version=version)}"' for name, page in PAGES.items()]
    table = "\n".join(["[project.urls]", *rows, "", "[project.scripts]"])
    project.write_text(text.replace("[project.scripts]", table, 1), encoding="utf-8")
    linked = absolute(readme.read_text(encoding="utf-8"), f"{url}/blob/v{version}")
    readme.write_text(linked, encoding="utf-8")
    return folder


def absolute(text: str, base: str) -> str:
    """Return a page whose links are absolute. A picture is asked for as it is, not as a page."""

    def link(found: re.Match[str]) -> str:
        start = text.rfind("[", 0, found.start())
        is_picture = start > 0 and text[start - 1] == "!"
        place = base.replace("/blob/", "/raw/") if is_picture else base
        return f"]({place}/{found[2]})"

    return LINK.sub(link, text)


def built(folder: Path, to: Path, *kinds: str) -> list[Path]:
    """Build in a folder, and return what was built: the source distribution first."""
    uv = str(Path(sys.executable).with_name("uv"))
    words = ["build", "--quiet", "--no-build-isolation", "--python", sys.executable, *kinds]
    subprocess.run([uv, *words, "--out-dir", str(to), str(folder)], check=True)
    return sorted([*to.glob("*.tar.gz"), *to.glob("*.whl")], key=lambda path: path.suffix)


def rebuilt(source: Path, folder: Path) -> Path:
    """Return the wheel that comes from a source distribution."""
    with tarfile.open(source) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    (wheel,) = built(tree, folder / "again", "--wheel")
    return wheel


# What is wrong with a wheel, whoever built it.


def metadata(wheel: Path) -> Message:
    """Return what an index and an installer read."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def faults(wheel: Path) -> Iterator[str]:
    """Yield what must not be released."""
    found = metadata(wheel)
    body = found.get_payload(decode=True)
    text = body.decode() if isinstance(body, bytes) else str(body)
    yield from (f"a link leads nowhere on an index: {link[2]}" for link in LINK.finditer(text))
    urls = {line.partition(",")[0] for line in found.get_all("Project-URL", [])}
    yield from (f"no project URL {name}" for name in PAGES if name not in urls)
    for needed in ("Requires-Python", "License-Expression", "Summary"):
        if not found.get(needed):
            yield f"no {needed}"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    yield from (f"not ours to ship: {name}" for name in names if "__pycache__" in name)
    if "vegakit/py.typed" not in names:
        yield "no vegakit/py.typed: type checkers would pass over it"


def main() -> int:
    """Build, rebuild and look."""
    parser = argparse.ArgumentParser(prog="python tools/release.py")
    parser.add_argument("url", help="of the repository, such as https://code.example/vega")
    parser.add_argument("folder", type=Path, help="where the two files are put")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vega-release-") as made:
        tree = Path(made) / "tree"
        tree.mkdir()
        source, wheel = built(prepared(chosen.url.rstrip("/"), tree), chosen.folder)
        told = [*faults(wheel)]
        if rebuilt(source, Path(made)).read_bytes() != wheel.read_bytes():
            told.append(f"{source.name} does not make {wheel.name}")
    print(*told, source, wheel, sep="\n")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
