"""A page of the web as text: what a reader sees, without scripts and styles, roughly.

Whoever wrote the page may want to hold the process. So each step goes forward from where the last
one ended, and a search that fails ends the page: time grows with its length only. Python's own
`html.parser` is not like that, and some of its codecs are not either.
"""

import html
import re
from codecs import BOM_UTF16_BE, getincrementaldecoder

_MOST_CHARACTERS = 2_000_000
_PIECE_BYTES = 32_768
_CHARSETS = frozenset(
    "utf-8 utf8 us-ascii ascii utf-16 utf-16le utf-16be iso-8859-1 iso-8859-2 iso-8859-3 "
    "iso-8859-4 iso-8859-5 iso-8859-6 iso-8859-7 iso-8859-8 iso-8859-9 iso-8859-10 iso-8859-13 "
    "iso-8859-14 iso-8859-15 iso-8859-16 latin1 windows-1250 windows-1251 windows-1252 "
    "windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258 "
    "koi8-r koi8-u macintosh gb2312 gbk gb18030 big5 euc-jp iso-2022-jp shift_jis euc-kr".split()
)
"""The encodings that browsers know. Python knows more, and some of those take the square of the
length, raise what nobody expects, or do no decoding at all."""
_UNSEEN = frozenset({"script", "style", "template", "svg", "noscript", "head"})
_RAW = {name: re.compile(rf"</{name}", re.IGNORECASE) for name in ("script", "style")}
"""In these a `<` begins no tag, and each ends with its first end tag."""
_BLOCKS = frozenset(
    "p div br li ul ol tr table h1 h2 h3 h4 h5 h6 pre section article header footer dt dd".split()
)
_NAME = re.compile(r"[a-zA-Z][^\s/>]{0,63}")
_QUOTE_OR_END = re.compile(r""">|=\s*+["']""")


def read_page(body: bytes, kind: str) -> str:
    """Return the text of an answer by its content type. It may take a second, so call it in a
    thread."""
    text = _decode(body, kind)
    return text_of_page(text) if "html" in kind else text


def _decode(body: bytes, kind: str) -> str:
    charset = kind.partition("charset=")[2].partition(";")[0].strip(" \"'")
    if charset not in _CHARSETS:
        charset = "utf-8"
    elif charset == "utf-16":  # its own decoder raises without a mark of the order of bytes
        charset = "utf-16be" if body.startswith(BOM_UTF16_BE) else "utf-16le"
    decoder = getincrementaldecoder(charset)("replace")
    # In pieces: other threads wait while one is decoded, and much that is wrong takes long.
    pieces = (body[at : at + _PIECE_BYTES] for at in range(0, len(body), _PIECE_BYTES))
    text = "".join([*map(decoder.decode, pieces), decoder.decode(b"", final=True)])
    return text.removeprefix("\ufeff")


def text_of_page(page: str) -> str:
    """Return what a reader of an HTML page sees, roughly."""
    reader = _PageReader(page[:_MOST_CHARACTERS])
    lines = (" ".join(line.split()) for line in reader.text().split("\n"))
    cut = f"[the page has {len(page):,} characters; this is from the first {_MOST_CHARACTERS:,}]"
    return "\n".join([*filter(None, lines), *([cut] if len(page) > _MOST_CHARACTERS else [])])


class _PageReader:
    """Reads a page from its beginning to its end, once. `_hidden` is the element that nobody sees
    in which the reader is, and `_depth` how often that was begun."""

    def __init__(self, page: str) -> None:
        self._page = page
        self._parts: list[str] = []
        self._hidden, self._depth = "", 0

    def text(self) -> str:
        """Return the text of the page, with a line for each block."""
        at = 0
        while at < len(self._page):
            start = self._page.find("<", at)
            self._say(self._page[at : start if start >= 0 else None])
            if start < 0:
                break
            at = self._after_mark(start)
        return "".join(self._parts)

    def _say(self, text: str) -> None:
        if text and not self._hidden:
            self._parts.append(_plain(text))

    def _after_mark(self, start: int) -> int:
        """Return where the page goes on after the mark that a `<` begins. One without an end takes
        the rest of the page."""
        page = self._page
        if page.startswith("<!--", start):
            return _after(page.find("-->", start + 2), 3, page)
        is_end = page.startswith("</", start)
        name = _NAME.match(page, start + 1 + is_end)
        if name is not None:
            end = _end_of_tag(page, name.end())
            return self._after_tag(name[0].lower(), end, is_end=is_end)
        if page.startswith(("<!", "<?", "</"), start):
            return _after(page.find(">", start), 1, page)
        self._say("<")
        return start + 1

    def _after_tag(self, name: str, end: int, *, is_end: bool) -> int:
        if is_end:
            self._leave(name)
        elif self._page[end - 2 : end] != "/>":
            self._enter(name)
            if name in _RAW:
                found = _RAW[name].search(self._page, end)
                end = len(self._page) if found is None else found.start()
        if name in _BLOCKS and not self._hidden:
            self._parts.append("\n")
        return end

    def _enter(self, name: str) -> None:
        if self._hidden == "head" and name == "body":  # `</head>` may be left out
            self._hidden = ""
        elif name in _UNSEEN and self._hidden in {"", name}:
            self._hidden = name
            self._depth += 1

    def _leave(self, name: str) -> None:
        if name == self._hidden:
            self._depth -= 1
            self._hidden = name if self._depth else ""


def _end_of_tag(page: str, at: int) -> int:
    """Return where a tag ends. A `>` in quotes ends none; a quote without its other is none."""
    while found := _QUOTE_OR_END.search(page, at):
        if found[0] == ">":
            return found.end()
        closing = page.find(found[0][-1], found.end())
        at = found.end() if closing < 0 else closing + 1
    return len(page)


def _after(found: int, length: int, page: str) -> int:
    return len(page) if found < 0 else found + length


def _plain(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # the number of a character, of more digits than Python reads
        return text
