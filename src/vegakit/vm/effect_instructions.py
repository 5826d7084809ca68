"""Instructions with effects, and the results from the host (pure).

A read after three writes is another call than the same read after two, and a process may answer its
second message differently than its first. So the ticket of a call that depends on such things
contains how many of them came before it in the program. A speculative call that was begun under a
wrong assumption then has another ticket than the call that the program makes. This also holds in
the next incarnation of the host, which finds recorded results by their tickets.

Instructions that wait by themselves (`HOST`, `MONITOR`, `BUDGET_ENTER`, `BUDGET_CHECK`) run twice:
first they make the request and wait, then they find the result under their ticket.

A result that does not fit the requested type is an error of the program, `ContractViolated`, and
never one of the machine: a host may return anything.
"""

from vegakit.lang import ANY_AGENT, MONEY, STR, EffectSet, Op, changes, file_path
from vegakit.vm.conversion import fit
from vegakit.vm.instructions import close_scopes, leave_round
from vegakit.vm.requests import (
    AskBudget,
    CallHost,
    EndProcesses,
    LinkBoth,
    OpenScope,
    Print,
    PriorSend,
    SendTo,
    SpawnAgent,
)
from vegakit.vm.state import MAIN, Crash, Frame, ProgramTask, TicketState, fault_of
from vegakit.vm.task_machine import STOP, InstructionHandler, Operands, TaskMachine
from vegakit.vm.values import (
    MAX_CHARS,
    AgentRef,
    Duration,
    Future,
    Handle,
    Money,
    ProgramFault,
    StreamRef,
    UnknownValue,
    Value,
    bad,
    kind_of,
    restored,
    stored,
    text_of,
    weight_of,
)

# Versions: which writes and messages a call can see, as a part of its ticket.


UNCOUNTED = -1

SPAN = "trace::span"


def count_change(task: ProgramTask, effect_set: EffectSet) -> None:
    """Count an effect that a later read may see."""
    if task.changes != UNCOUNTED and changes(effect_set):
        task.changes += 1


def version_of(task: ProgramTask, effect_set: EffectSet, messages_sent: int = 0) -> str | None:
    """Return the version of a call, or None if it is unknown, because the lookahead stepped over
    code."""
    seen = task.changes if effect_set.reads or effect_set.gets else 0
    if seen == UNCOUNTED:
        return None
    return f"#{seen}.{messages_sent}" if seen or messages_sent else ""


# Instructions that make requests.


def path_given(frame: Frame, operands: Operands) -> str:
    """Return the path that a call of a file function is given; empty if it is none, or unknown."""
    _, name, args, _ = operands
    return file_path(name, frame.registers[args[0]]) if args else ""


def _host(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    into, name, _, site = operands
    effect_set = vm.facts.effects.host(name, vm.functions[frame.function].rights)
    ticket = vm.ticket(frame, site, version_of(task, effect_set) or "")
    begun = vm.is_speculative(ticket)
    if begun and not vm.use_speculative(
        task, ticket, host_call_request(vm, frame, operands, ticket)
    ):
        return _host(vm, task, frame, operands)
    if not vm.has_asked(ticket, "host", task):
        if name == SPAN:
            leave_round(vm, frame, ticket)
        request = host_call_request(vm, frame, operands, ticket)
        path = path_given(frame, operands)
        vm.ask(ticket, TicketState("host", task.name, of=f"{name}@{request.rights}", path=path))
        vm.request(request)
    if vm.state.asked[ticket].done:
        count_change(task, effect_set)
        if name == SPAN:
            frame.spans = (*frame.spans, ticket)
    return _awaited(vm, task, frame, ticket, into)


def host_call_request(vm: TaskMachine, frame: Frame, operands: Operands, ticket: str) -> CallHost:
    """Return the request of a host call, with the values of its registers."""
    _, name, args, _ = operands
    values = [frame.registers[each] for each in args]
    vm.extra += sum(map(weight_of, values)) >> 5
    forms = tuple(stored(value) for value in values)
    rights = vm.functions[frame.function].rights
    return CallHost(ticket, name, forms, rights, vm.scope(frame), vm.span(frame))


def _awaited(
    vm: TaskMachine, task: ProgramTask, frame: Frame, ticket: str, into: int
) -> int | None:
    asked = vm.state.asked[ticket]
    if not asked.done:
        return vm.wait(task, frame, ticket)
    del vm.state.asked[ticket]
    frame.registers[into] = _outcome(asked)
    return None


def _outcome(asked: TicketState) -> Value:
    if asked.error is not None:
        asked.taken = True
        raise fault_of(asked.error)
    return asked.value


def _print(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    of, site = operands
    value = frame.registers[of]
    vm.extra += weight_of(value) >> 6
    vm.request(Print(vm.ticket(frame, site), text_of(value)))


def _send(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    ticket = _sent(vm, task, frame, operands, stream=False)
    frame.registers[operands[0]] = Future(ticket)


def _send_stream(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    ticket = _sent(vm, task, frame, operands, stream=True)
    frame.registers[operands[0]] = StreamRef(ticket)


def _sent(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands, *, stream: bool
) -> str:
    _, to, message, answer, _, _, site = operands
    r = frame.registers
    agent = receiving_agent(vm, r[to])
    effect_set, messages_sent = vm.facts.effects.agent(agent), vm.messages_sent(agent, r[to])
    ticket = vm.ticket(frame, site, version_of(task, effect_set, messages_sent) or "")
    request = send_request(vm, frame, operands, ticket, stream=stream)
    if vm.is_speculative(ticket) and not vm.use_speculative(task, ticket, request):
        return _sent(vm, task, frame, operands, stream=stream)
    count_change(task, effect_set)
    vm.count_message(agent, r[to])
    if ticket in vm.state.asked:
        return ticket
    asked = TicketState("stream" if stream else "send", task.name, answer=answer, of=agent)
    to_path = "" if request.agent else request.to
    size = weight_of(r[message])
    asked.older = PriorSend(
        agent, size, 0, answer >= 0, request.budget, to=to_path, scope=request.scope
    )
    vm.ask(ticket, asked)
    vm.request(request)
    return ticket


def send_request(
    vm: TaskMachine, frame: Frame, operands: Operands, ticket: str, *, stream: bool
) -> SendTo:
    """Return the request of a send, with the values of its registers."""
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
        vm.span(frame),
    )


def receiving_agent(vm: TaskMachine, to: Value) -> str:
    """Return the agent that will answer, as far as the machine knows."""
    match to:
        case AgentRef(name=name):
            return name
        case Handle(path=path):
            return vm.state.agents.get(path, ANY_AGENT)
        case UnknownValue(agent=agent) if agent:
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
        raise ProgramFault("ValueError", f"a budget is not negative; got {text_of(money)}")
    return money.nanos


def _force(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int | None:
    """Await a future. Any other value is its own result."""
    into, of = operands
    value = frame.registers[of]
    if type(value) is Future:
        asked = _known(vm, value.ticket)
        if not asked.done:
            return vm.wait(task, frame, value.ticket)
        value = _outcome(asked)
    frame.registers[into] = value
    return None


def _known(vm: TaskMachine, ticket: str) -> TicketState:
    asked = vm.state.asked.get(ticket)
    if asked is None:
        raise bad(f"nothing was asked under {ticket:.80}")
    return asked


def _spawn(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, agent, wallet, name, under, rules, site = operands
    r, ticket = frame.registers, vm.ticket(frame, site)
    if type(r[agent]) is not AgentRef:
        raise bad(f"an agent is spawned, not {kind_of(r[agent])}")
    request = SpawnAgent(
        ticket,
        r[agent].name,
        _nanos(r, wallet),
        _name(r, name),
        _name(r, under),
        stored(rules),
        vm.scope(frame),
        task.name != MAIN,
    )
    vm.ask(ticket, TicketState("spawn", task.name, of=request.agent))
    if not request.name:
        frame.spawned.append(ticket)
        vm.state.spawned[ticket] = ""
    vm.request(request)
    r[into] = Future(ticket)


def _name(r: list[Value], at: int) -> str:
    """Return a string, or the name of what the register refers to."""
    if at < 0 or r[at] is None:
        return ""
    if type(r[at]) is str or type(r[at]) in (AgentRef, Handle):
        return text_of(r[at])
    raise bad(f"a name is a str, not {kind_of(r[at])}")


def _link(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    """Link two processes. They no longer end with the call that spawned them."""
    one, other = (frame.registers[each] for each in operands)
    if type(one) is not Handle or type(other) is not Handle:
        raise bad(f"processes are linked, not {kind_of(one)} and {kind_of(other)}")
    for ticket, path in [*vm.state.spawned.items()]:
        if path in (one.path, other.path):
            del vm.state.spawned[ticket]
    vm.request(LinkBoth(one.path, other.path))


def _exit(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> int:
    vm.exit(task, text_of(frame.registers[operands[0]]))
    return STOP


def _stream(vm: TaskMachine, frame: Frame, at: int) -> tuple[str, TicketState]:
    of = frame.registers[at]
    if type(of) is not StreamRef:
        raise bad(f"{kind_of(of)} is no stream")
    return of.ticket, _known(vm, of.ticket)


def _stream_next(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    into, of = operands
    ticket, asked = _stream(vm, frame, of)
    if asked.chunks:
        frame.registers[into] = asked.chunks.pop(0)
        return None
    if not asked.done:
        return vm.wait(task, frame, ticket)
    _outcome(asked)
    raise ProgramFault("IndexError", "the stream is at its end")


def _stream_done(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    """Test for the end of a stream. An error of the stream is raised after the chunks before it."""
    into, of = operands
    ticket, asked = _stream(vm, frame, of)
    if not asked.chunks:
        if not asked.done:
            return vm.wait(task, frame, ticket)
        _outcome(asked)
    frame.registers[into] = not asked.chunks
    return None


def _budget_enter(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    of, settings, site = operands
    ticket = vm.ticket(frame, site)
    if not vm.has_asked(ticket, "scope", task):
        if ticket in vm.state.scopes:
            raise bad(f"the scope {ticket:.200} is open already")
        amount = frame.registers[of]
        if type(amount) is not Money:
            raise bad(f"a budget is money, not {kind_of(amount)}")
        request = OpenScope(ticket, _amount(amount), vm.scope(frame), stored(settings) or None)
        vm.ask(ticket, TicketState("scope", task.name))
        vm.request(request)
    asked = vm.state.asked[ticket]
    if not asked.done:
        return vm.wait(task, frame, ticket)
    del vm.state.asked[ticket]
    _outcome(asked)
    vm.state.scopes[ticket] = vm.scope(frame)
    frame.scopes.append(ticket)
    return None


def _budget_exit(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    if len(frame.scopes) <= frame.kept:
        raise bad("no budget scope is open here")
    close_scopes(vm, frame, len(frame.scopes) - 1)


def _budget_check(
    vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands
) -> int | None:
    into, what, site = operands
    ticket = vm.ticket(frame, site)
    if not vm.has_asked(ticket, "budget", task):
        vm.ask(ticket, TicketState("budget", task.name))
        vm.request(AskBudget(ticket, what, vm.scope(frame)))
    return _awaited(vm, task, frame, ticket, into)


def _budget_reserve(vm: TaskMachine, task: ProgramTask, frame: Frame, operands: Operands) -> None:
    into, of = operands
    amount = frame.registers[of]
    if type(amount) is not Money:
        raise bad(f"a budget is money, not {kind_of(amount)}")
    _amount(amount)
    frame.registers[into] = amount


EFFECT_INSTRUCTIONS: dict[Op, InstructionHandler] = {
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


# Results from the host, checked and stored under their tickets.


def answered(vm: TaskMachine, ticket: str, form: object, cause: tuple[str, ...] = ()) -> bool:
    """Store a result under its ticket. One that does not fit the requested type becomes an
    error."""
    asked = _open(vm, ticket)
    if asked is None:
        return False
    try:
        asked.value = _read(vm, asked, form)
    except ProgramFault as fault:
        asked.error = Crash(fault.name, fault.reason, (), cause)
    _settle(vm, ticket, asked)
    return True


def failed(
    vm: TaskMachine, ticket: str, error: str, reason: str, cause: tuple[str, ...] = ()
) -> bool:
    """Store an error under its ticket."""
    asked = _open(vm, ticket)
    if asked is None:
        return False
    asked.error = Crash(error, reason, (), cause)
    _settle(vm, ticket, asked)
    return True


def chunked(vm: TaskMachine, ticket: str, text: str) -> bool:
    """Append a chunk to a stream."""
    asked = _open(vm, ticket)
    if asked is None or asked.kind != "stream":
        return False
    try:
        chunk = fit(restored(text), STR)
    except ProgramFault as fault:
        return failed(vm, ticket, fault.name, fault.reason)
    if sum(map(len, asked.chunks)) + len(chunk) > MAX_CHARS:
        return failed(vm, ticket, "LimitReached", "too much of the stream is unread")
    asked.chunks.append(chunk)
    vm.weight_bound += len(chunk)
    vm.wake(ticket)
    return True


def stream_ended(vm: TaskMachine, ticket: str) -> bool:
    """End a stream."""
    asked = _open(vm, ticket)
    if asked is None:
        return False
    if asked.kind != "stream":
        return failed(vm, ticket, "ContractViolated", "the end of a stream is no answer")
    _settle(vm, ticket, asked)
    return True


def _open(vm: TaskMachine, ticket: str) -> TicketState | None:
    asked = vm.state.asked.get(ticket)
    return None if asked is None or asked.done else asked


def _settle(vm: TaskMachine, ticket: str, asked: TicketState) -> None:
    asked.done = vm.state.lookahead_due = True
    vm.stir(asked.task)
    if asked.error is not None:
        vm.kept_walks.clear()  # the program goes on in a handler, where they did not look
    vm.weight_bound += weight_of(asked.value)
    vm.pending.get(asked.task, {}).pop(ticket, None)
    if asked.kind == "spawn":
        _settle_process(vm, ticket, asked)
    vm.wake(ticket)


def _settle_process(vm: TaskMachine, ticket: str, asked: TicketState) -> None:
    path = asked.value.path if asked.error is None else ""
    if path and asked.of:
        vm.state.agents[path] = asked.of
    if asked.orphan:
        del vm.state.asked[ticket]
        if path:
            vm.request(EndProcesses((path,)))
    elif path and ticket in vm.state.spawned:
        vm.state.spawned[ticket] = path
    else:
        vm.state.spawned.pop(ticket, None)


def _read(vm: TaskMachine, asked: TicketState, form: object) -> Value:
    if asked.kind == "spawn":
        value = restored(form)
        return value if type(value) is Handle else Handle(fit(value, STR))
    if asked.kind in ("scope", "stream"):
        return None
    value = restored(form)
    if asked.kind == "budget":
        return Money(value) if type(value) is int else fit(value, MONEY)
    if asked.kind == "host":
        return value
    return fit(value, vm.types[asked.answer] if asked.answer >= 0 else STR, "the answer")
