"""Five names, five levels."""

from vegakit.effects import EffectPath, SetTimer, Site, effect
from vegakit.ids import ProgramId, TenantId
from vegakit.policy import Priority


def test_levels_count_down_from_the_most_urgent() -> None:
    """Realtime is 0 and idle is 4."""
    levels = {str(priority): priority.level for priority in Priority}
    assert levels == {"realtime": 0, "high": 1, "normal": 2, "low": 3, "idle": 4}


def test_an_effect_is_normal_unless_it_says_otherwise() -> None:
    """The number an effect carries by default is the level of normal."""
    path = EffectPath(TenantId("t"), ProgramId("p"), (), Site("main", 0))
    assert effect(path, SetTimer(due_ms=5)).priority == Priority.NORMAL.level
