"""Whatever a file holds, loading it ends with settings or with a `SettingsError`."""

import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import given, strategies as st

from tests.config.house import House
from vegakit.config import explain
from vegakit.errors import SettingsError

NAMES = st.sampled_from(
    "models providers prices limits budget telemetry ledger data_dir default key fast openai retry "
    "headers base_url 'openai:x' input output tiers requests on backoff path jsonl odd".split()
)
SIMPLE = """
    1 0 -1 1.5 true nan inf "" "$1" "$1/day" "a:b" 'x' 30s "30s" "queue" "http://a"
    "http://[" 1979-05-27
""".split()
TEXTS = ['"60 per 1m"', '"exponential(1s, 2.0, 5s)"', "'''x'''"]
VALUES = st.recursive(
    st.sampled_from([*SIMPLE, *TEXTS]),
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda parts: f"[{', '.join(parts)}]")
        | st.tuples(NAMES, inner).map(lambda pair: f"{{ {pair[0]} = {pair[1]} }}")
    ),
    max_leaves=3,
)
KEYS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)
LINES = st.one_of(
    KEYS.map(lambda key: f"[{key}]"),
    st.tuples(KEYS, VALUES).map(" = ".join),
    st.text(st.characters(blacklist_categories=["Cs"]), max_size=20),
)


@given(st.lists(LINES, max_size=6).map("\n".join))
def test_a_file_gives_settings_or_a_refusal(text: str) -> None:
    """No other error, for the user's file as for the project's; what is loaded can be explained."""
    with tempfile.TemporaryDirectory() as root:
        house = House(Path(root))
        for write in (house.user, house.write):
            write(text)
            with suppress(SettingsError):
                assert explain(house.load())
