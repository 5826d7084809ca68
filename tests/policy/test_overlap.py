"""The table of overlap, row by row."""

import pytest

from vegakit.policy import Grant, delegate, overlap

READ_SRC = Grant(("fs::read",), paths=("src/**",))
WRITE_SRC = Grant(("fs::write",), paths=("src/**",))
WRITE_DOCS = Grant(("fs::read", "fs::write"), paths=("docs/**", "*.md"))
LOOK = Grant(("net::get",), hosts=("example.com",))
NOTHING = Grant()


@pytest.mark.parametrize(
    ("one", "other", "matters"),
    [
        (READ_SRC, READ_SRC, False),
        (READ_SRC, WRITE_SRC, True),
        (WRITE_SRC, WRITE_SRC, True),
        (WRITE_SRC, WRITE_DOCS, False),
        (READ_SRC, WRITE_DOCS, False),
        (WRITE_SRC, Grant(("fs::read",), paths=("docs/a", "src/a")), True),
        (WRITE_SRC, Grant(("fs::read",)), False),
        (LOOK, LOOK, False),
        (LOOK, WRITE_SRC, False),
        (LOOK, Grant(("net::get", "fs::read"), paths=("**",)), False),
        (Grant(("net::get", "fs::read"), paths=("src/a",)), WRITE_SRC, True),
        (Grant(("net::get", "fs::read"), paths=("docs/a",)), WRITE_SRC, False),
        (NOTHING, WRITE_SRC, False),
        (NOTHING, NOTHING, False),
    ],
)
def test_only_a_write_disturbs_and_only_where_it_writes(
    one: Grant, other: Grant, matters: bool
) -> None:
    """Reads commute; a write meets readers and writers of its own paths."""
    assert overlap(one, other) is matters
    assert overlap(other, one) is matters


@pytest.mark.parametrize(
    "name", ["process::exec", "net::post", "db::query", "fs", "net", "fs::read::meta", "fs::move"]
)
def test_what_may_do_anything_disturbs_everything(name: str) -> None:
    """Commands, posts and names nobody knows are never moved past other work."""
    wild = Grant((name,))
    for other in (READ_SRC, LOOK, WRITE_DOCS, wild, Grant(("net::get", name))):
        assert overlap(wild, other)
        assert overlap(other, wild)
    assert not overlap(wild, NOTHING)


@pytest.mark.parametrize(
    ("denials", "matters"),
    [
        (("fs::write",), False),
        (("fs",), False),
        (("fs::read",), True),
        (("fs::write::x",), True),
        (("net", "fs::write"), False),
    ],
)
def test_what_is_denied_disturbs_nobody(denials: tuple[str, ...], matters: bool) -> None:
    """A denied name is as good as not granted; a denied branch of it is not enough."""
    both = Grant(("fs::read", "fs::write"), denials, paths=("src/**",))
    assert overlap(both, READ_SRC) is matters


def test_a_delegated_grant_disturbs_no_more_than_any_it_was_cut_from() -> None:
    """One of them that keeps apart is enough, whichever it is."""
    cut = delegate(Grant(("fs",), paths=("**",)), WRITE_DOCS)
    assert overlap(cut, WRITE_DOCS)
    assert not overlap(cut, READ_SRC)
    assert not overlap(READ_SRC, delegate(WRITE_DOCS, Grant(("fs",), paths=("**",))))
    assert overlap(READ_SRC, delegate(WRITE_SRC, Grant(("fs",), paths=("**",))))
