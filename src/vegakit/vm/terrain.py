"""What a scout knows of a module before it walks: effects, regions, who may be asked early."""

from vegakit.lang import Class, Effects, ModuleRows
from vegakit.vm.decoding import LastFew, Program
from vegakit.vm.regions import PAUSES, Regions

__all__ = ["Terrain", "terrain_of"]


class Terrain:
    def __init__(self, program: Program) -> None:
        self.rows = ModuleRows(program.module)
        self.regions = Regions(self.rows, program.module.functions, program.module.constants)

    def may_be_early(self, agent: str) -> bool:
        """Its answer depends on nothing that earlier calls leave behind but its own memory: on no
        breaker that failures open, no bucket that calls empty, no restarts of those that its tools
        ask; nor do its tools look at the budget, or wait."""
        spec, row = self.rows.spec(agent), self.rows.agent(agent)
        if spec is None or row.is_irrevocable or row.sends - {agent}:
            return False
        guarded = spec.circuit_breaker is not None or spec.rate_limit is not None
        tools = map(self.regions.whole, self.rows.tools_of(spec))
        return not guarded and not any(tool.barrier for tool in tools)

    def only_reads(self, row: Effects) -> bool:
        return row.class_ is Class.REVOCABLE

    def is_pause(self, function: str) -> bool:
        return function in PAUSES

    def row_of(self, asked: str) -> Effects:
        """Of what was asked: an agent, or a host function and its rights."""
        name, at, rights = asked.rpartition("@")
        return self.rows.host(name, int(rights)) if at else self.rows.agent(asked)


def terrain_of(program: Program) -> Terrain:
    return _KNOWN.of(program)


_KNOWN = LastFew(Terrain)
