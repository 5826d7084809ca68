"""What every store of documents does, as checks that run against an empty one.

@pytest.mark.parametrize("check", STORE_CHECKS)
def test_my_store(check):
    asyncio.run(check(MyStore()))
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from vegakit.errors import InvalidRecordError
from vegakit.ports import Store

__all__ = ["STORE_CHECKS", "StoreCheck"]

StoreCheck: TypeAlias = Callable[[Store], Awaitable[None]]


async def _creates_and_replaces_by_version(store: Store) -> None:
    assert await store.get("run", "a") is None
    assert await store.put("run", "a", b"one", expected=0)
    assert await store.get("run", "a") == (b"one", 1)
    assert await store.put("run", "a", b"two", expected=1)
    assert await store.get("run", "a") == (b"two", 2)


async def _refuses_another_version(store: Store) -> None:
    assert not await store.put("run", "a", b"one", expected=1)
    await store.put("run", "a", b"one", expected=0)
    assert not await store.put("run", "a", b"two", expected=0)
    assert not await store.delete("run", "a", expected=2)
    assert await store.get("run", "a") == (b"one", 1)


async def _deletes_by_version(store: Store) -> None:
    assert not await store.delete("run", "a", expected=0)
    await store.put("run", "a", b"one", expected=0)
    assert await store.delete("run", "a", expected=1)
    assert await store.get("run", "a") is None
    assert await store.put("run", "a", b"new", expected=0)


async def _lists_keys_in_order_page_by_page(store: Store) -> None:
    for key in ("é", "b", "a", "Z", "ab"):
        await store.put("run", key, b"", expected=0)
    await store.put("other", "aa", b"", expected=0)
    assert list(await store.keys("run")) == ["Z", "a", "ab", "b", "é"]
    assert list(await store.keys("run", limit=2)) == ["Z", "a"]
    assert list(await store.keys("run", after="a", limit=2)) == ["ab", "b"]
    assert list(await store.keys("run", limit=0)) == list(await store.keys("none")) == []


async def _keeps_bytes_as_they_are(store: Store) -> None:
    value = bytes(range(256)) * 10
    await store.put("run", "a", value, expected=0)
    assert await store.get("run", "a") == (value, 1)


async def _loses_no_update(store: Store) -> None:
    """Of many who read the same version one writes; the others must read again."""
    await store.put("count", "a", b"0", expected=0)

    async def add_one() -> None:
        while True:
            found = await store.get("count", "a")
            assert found is not None
            value, version = found
            if await store.put("count", "a", b"%d" % (int(value) + 1), expected=version):
                return

    await asyncio.gather(*(add_one() for _ in range(20)))
    assert await store.get("count", "a") == (b"20", 21)


async def _refuses_empty_names(store: Store) -> None:
    for kind, key in (("", "a"), ("run", "")):
        try:
            await store.put(kind, key, b"", expected=0)
        except InvalidRecordError:
            continue
        raise AssertionError(f"a document was called {kind!r} and {key!r}")


STORE_CHECKS: tuple[StoreCheck, ...] = (
    _creates_and_replaces_by_version,
    _refuses_another_version,
    _deletes_by_version,
    _lists_keys_in_order_page_by_page,
    _keeps_bytes_as_they_are,
    _loses_no_update,
    _refuses_empty_names,
)
