"""Comments of a program, handed out once each as their places come by."""

from vegakit.lang.diagnostics import Findings
from vegakit.lang.formatting.atoms import atoms_of, landmarks_of
from vegakit.lang.lexer import tokenize
from vegakit.lang.tree import Source

__all__ = ["Comments"]


class Comments:
    def __init__(self, text: str, source: Source) -> None:
        self._text = text
        atoms = atoms_of(text, tokenize(text, Findings("")), landmarks_of(source))
        found = [atom for atom in atoms if atom.kind in ("comment", "note")]
        self.waiting = [(atom.at, _marked(atom.text)) for atom in found]

    def before(self, at: int) -> list[str]:
        """Those that stand above this place."""
        made: list[str] = []
        while self.waiting and self.waiting[0][0] < at:
            made += self.waiting.pop(0)[1]
        return made

    def beside(self, end: int) -> tuple[list[str], list[str]]:
        """Those inside what ends here or behind it on its line; then the rest of long ones."""
        line_end = self._text.find("\n", end)
        found = self.before(len(self._text) if line_end < 0 else line_end)
        return found[:1], found[1:]


def _marked(text: str) -> list[str]:
    if text.startswith("//"):
        return [f"#{text[2:]}"]
    inner = text.removeprefix("/*").removesuffix("*/").split("\n")
    return [f"# {line.strip()}".rstrip() for line in inner]
