"""Instructions that ask something of the world.

Those that wait by themselves (`HOST`, `MONITOR`, `BUDGET_ENTER`, `BUDGET_CHECK`) are run twice:
the first time they ask and wait, the second time their ticket has an answer.
"""

from typing import TYPE_CHECKING

from vegakit.lang import ANY_AGENT, Op
from vegakit.vm.calling import close_scopes
from vegakit.vm.computing import STOP, Cold, Operands
from vegakit.vm.faults import Fault, bad
from vegakit.vm.state import MAIN, Asked, Frame, Strand, fault_of
from vegakit.vm.texts import text_of
from vegakit.vm.values import (
    AgentRef,
    Duration,
    Future,
    Handle,
    Money,
    StreamRef,
    Unknown,
    Value,
    kind_of,
    stored,
    weight_of,
)
from vegakit.vm.versions import count_change, version_of
from vegakit.vm.wants import (
    AskBudget,
    CallHost,
    LinkBoth,
    Older,
    OpenScope,
    Print,
    SendTo,
    SpawnAgent,
)

if TYPE_CHECKING:
    from vegakit.vm.machine import Vm

__all__ = ["ASKING", "agent_asked", "call_wanted", "send_wanted"]


def _host(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    into, name, _, site = operands
    row = vm.terrain.rows.host(name, vm.functions[frame.function].rights)
    ticket = vm.ticket(frame, site, version_of(strand, row) or "")
    begun = vm.begun_early(ticket)
    if begun and not vm.takes_over(strand, ticket, call_wanted(vm, frame, operands, ticket)):
        return _host(vm, strand, frame, operands)
    if not vm.has_asked(ticket, "host", strand):
        want = call_wanted(vm, frame, operands, ticket)
        vm.ask(ticket, Asked("host", strand.name, of=f"{name}@{want.rights}"))
        vm.want(want)
    if vm.state.asked[ticket].done:
        count_change(strand, row)
    return _awaited(vm, strand, frame, ticket, into)


def call_wanted(vm: "Vm", frame: Frame, operands: Operands, ticket: str) -> CallHost:
    _, name, args, _ = operands
    values = [frame.registers[each] for each in args]
    vm.extra += sum(map(weight_of, values)) >> 5
    forms = tuple(stored(value) for value in values)
    rights = vm.functions[frame.function].rights
    return CallHost(ticket, name, forms, rights, vm.scope(frame))


def _awaited(vm: "Vm", strand: Strand, frame: Frame, ticket: str, into: int) -> int | None:
    asked = vm.state.asked[ticket]
    if not asked.done:
        return vm.wait(strand, frame, ticket)
    del vm.state.asked[ticket]
    frame.registers[into] = _outcome(asked)
    return None


def _outcome(asked: Asked) -> Value:
    if asked.error is not None:
        asked.taken = True
        raise fault_of(asked.error)
    return asked.value


def _print(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    of, site = operands
    value = frame.registers[of]
    vm.extra += weight_of(value) >> 6
    vm.want(Print(vm.ticket(frame, site), text_of(value)))


def _send(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    ticket = _sent(vm, strand, frame, operands, stream=False)
    frame.registers[operands[0]] = Future(ticket)


def _send_stream(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    ticket = _sent(vm, strand, frame, operands, stream=True)
    frame.registers[operands[0]] = StreamRef(ticket)


def _sent(vm: "Vm", strand: Strand, frame: Frame, operands: Operands, *, stream: bool) -> str:
    _, to, message, answer, _, _, site = operands
    r = frame.registers
    agent = agent_asked(vm, r[to])
    row, heard = vm.terrain.rows.agent(agent), vm.heard(agent, r[to])
    ticket = vm.ticket(frame, site, version_of(strand, row, heard) or "")
    want = send_wanted(vm, frame, operands, ticket, stream=stream)
    if vm.begun_early(ticket) and not vm.takes_over(strand, ticket, want):
        return _sent(vm, strand, frame, operands, stream=stream)
    count_change(strand, row)
    vm.count_heard(agent, r[to])
    if ticket in vm.state.asked:
        return ticket
    asked = Asked("stream" if stream else "send", strand.name, answer=answer, of=agent)
    to_path = "" if want.agent else want.to
    size = weight_of(r[message])
    asked.older = Older(agent, size, 0, answer >= 0, want.budget, to=to_path, scope=want.scope)
    vm.ask(ticket, asked)
    vm.want(want)
    return ticket


def send_wanted(vm: "Vm", frame: Frame, operands: Operands, ticket: str, *, stream: bool) -> SendTo:
    _, to, message, answer, timeout, budget, _ = operands
    r = frame.registers
    path, agent = _target(r[to])
    vm.extra += weight_of(r[message]) >> 5
    return SendTo(
        ticket,
        path,
        stored(r[message]),
        agent,
        vm.type(answer) if answer >= 0 else None,
        _milliseconds(r, timeout),
        _nanos(r, budget),
        stream,
        vm.scope(frame),
    )


def agent_asked(vm: "Vm", to: Value) -> str:
    """The agent that will answer, as far as the machine knows."""
    match to:
        case AgentRef(name=name):
            return name
        case Handle(path=path):
            return vm.state.agents.get(path, ANY_AGENT)
        case Unknown(agent=agent) if agent:
            return agent
        case _:
            return ANY_AGENT


def _target(to: Value) -> tuple[str, bool]:
    if type(to) is Handle:
        return to.path, False
    if type(to) is AgentRef:
        return to.name, True
    raise bad(f"{kind_of(to)} takes no messages")


def _milliseconds(r: list[Value], at: int) -> int | None:
    if at < 0 or r[at] is None:
        return None
    if type(r[at]) is not Duration:
        raise bad(f"a timeout is a duration, not {kind_of(r[at])}")
    return r[at].ms


def _nanos(r: list[Value], at: int) -> int | None:
    if at < 0 or r[at] is None:
        return None
    if type(r[at]) is not Money:
        raise bad(f"a budget is money, not {kind_of(r[at])}")
    return _amount(r[at])


def _amount(money: Money) -> int:
    if money.nanos < 0:
        raise Fault("ValueError", f"a budget is not negative; got {text_of(money)}")
    return money.nanos


def _force(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    """What is no future is its own value."""
    into, of = operands
    value = frame.registers[of]
    if type(value) is Future:
        asked = _known(vm, value.ticket)
        if not asked.done:
            return vm.wait(strand, frame, value.ticket)
        value = _outcome(asked)
    frame.registers[into] = value
    return None


def _known(vm: "Vm", ticket: str) -> Asked:
    asked = vm.state.asked.get(ticket)
    if asked is None:
        raise bad(f"nothing was asked under {ticket:.80}")
    return asked


def _spawn(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, agent, wallet, name, under, rules, site = operands
    r, ticket = frame.registers, vm.ticket(frame, site)
    if type(r[agent]) is not AgentRef:
        raise bad(f"an agent is spawned, not {kind_of(r[agent])}")
    want = SpawnAgent(
        ticket,
        r[agent].name,
        _nanos(r, wallet),
        _name(r, name),
        _name(r, under),
        stored(rules),
        vm.scope(frame),
        strand.name != MAIN,
    )
    vm.ask(ticket, Asked("spawn", strand.name, of=_kept_as(want)))
    if not want.name:
        frame.spawned.append(ticket)
        vm.state.spawned[ticket] = ""
    vm.want(want)
    r[into] = Future(ticket)


def _kept_as(want: SpawnAgent) -> str:
    """One that is supervised by rules of its own is kept in order: whether it is there may depend
    on what was sent before."""
    return "" if want.under or want.rules else want.agent


def _name(r: list[Value], at: int) -> str:
    """A string, or the name of what the register refers to."""
    if at < 0 or r[at] is None:
        return ""
    if type(r[at]) is str or type(r[at]) in (AgentRef, Handle):
        return text_of(r[at])
    raise bad(f"a name is a str, not {kind_of(r[at])}")


def _link(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    """Linked processes do not end with the call that spawned them."""
    one, other = (frame.registers[each] for each in operands)
    if type(one) is not Handle or type(other) is not Handle:
        raise bad(f"processes are linked, not {kind_of(one)} and {kind_of(other)}")
    for ticket, path in [*vm.state.spawned.items()]:
        if path in (one.path, other.path):
            del vm.state.spawned[ticket]
    vm.want(LinkBoth(one.path, other.path))


def _exit(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int:
    vm.exit(strand, text_of(frame.registers[operands[0]]))
    return STOP


def _stream(vm: "Vm", frame: Frame, at: int) -> tuple[str, Asked]:
    of = frame.registers[at]
    if type(of) is not StreamRef:
        raise bad(f"{kind_of(of)} is no stream")
    return of.ticket, _known(vm, of.ticket)


def _stream_next(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    into, of = operands
    ticket, asked = _stream(vm, frame, of)
    if asked.chunks:
        frame.registers[into] = asked.chunks.pop(0)
        return None
    if not asked.done:
        return vm.wait(strand, frame, ticket)
    _outcome(asked)
    raise Fault("IndexError", "the stream is at its end")


def _stream_done(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    """An error of the stream comes after the chunks before it."""
    into, of = operands
    ticket, asked = _stream(vm, frame, of)
    if not asked.chunks:
        if not asked.done:
            return vm.wait(strand, frame, ticket)
        _outcome(asked)
    frame.registers[into] = not asked.chunks
    return None


def _budget_enter(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    of, settings, site = operands
    ticket = vm.ticket(frame, site)
    if not vm.has_asked(ticket, "scope", strand):
        if ticket in vm.state.scopes:
            raise bad(f"the scope {ticket:.200} is open already")
        amount = frame.registers[of]
        if type(amount) is not Money:
            raise bad(f"a budget is money, not {kind_of(amount)}")
        want = OpenScope(ticket, _amount(amount), vm.scope(frame), stored(settings) or None)
        vm.ask(ticket, Asked("scope", strand.name))
        vm.want(want)
    asked = vm.state.asked[ticket]
    if not asked.done:
        return vm.wait(strand, frame, ticket)
    del vm.state.asked[ticket]
    _outcome(asked)
    vm.state.scopes[ticket] = vm.scope(frame)
    frame.scopes.append(ticket)
    return None


def _budget_exit(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    if len(frame.scopes) <= frame.kept:
        raise bad("no budget scope is open here")
    close_scopes(vm, frame, len(frame.scopes) - 1)


def _budget_check(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> int | None:
    into, what, site = operands
    ticket = vm.ticket(frame, site)
    if not vm.has_asked(ticket, "budget", strand):
        vm.ask(ticket, Asked("budget", strand.name))
        vm.want(AskBudget(ticket, what, vm.scope(frame)))
    return _awaited(vm, strand, frame, ticket, into)


def _budget_reserve(vm: "Vm", strand: Strand, frame: Frame, operands: Operands) -> None:
    into, of = operands
    amount = frame.registers[of]
    if type(amount) is not Money:
        raise bad(f"a budget is money, not {kind_of(amount)}")
    _amount(amount)
    frame.registers[into] = amount


ASKING: dict[Op, Cold] = {
    Op.HOST: _host,
    Op.PRINT: _print,
    Op.ISSUE_SEND: _send,
    Op.FORCE: _force,
    Op.SPAWN_SUPERVISED: _spawn,
    Op.LINK: _link,
    Op.EXIT: _exit,
    Op.SEND_STREAM: _send_stream,
    Op.STREAM_NEXT: _stream_next,
    Op.STREAM_DONE: _stream_done,
    Op.BUDGET_ENTER: _budget_enter,
    Op.BUDGET_EXIT: _budget_exit,
    Op.BUDGET_CHECK: _budget_check,
    Op.BUDGET_RESERVE: _budget_reserve,
}
