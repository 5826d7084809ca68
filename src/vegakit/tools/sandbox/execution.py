"""The tool `exec`: one command, its rights looked up, run in the sandbox.

| asked                                     | grant                  | automatic                   |
|-------------------------------------------|------------------------|-----------------------------|
| words of a clean command                  | a rule must fit        | runs, if exec is granted    |
| a line that is nothing but words          | the same, as words     | the same, as words          |
| a line with shell syntax                  | refused                | refused                     |
| an environment, a folder, anything else   | refused                | refused                     |

Automatic stands on the sandbox: inside it, one command can do no more than another.
"""

from collections.abc import Mapping
from typing import Any

from vegakit.conversation import ToolSpec
from vegakit.errors import CapabilityDenied, InvalidRuleError
from vegakit.policy import (
    Allowed,
    Denied,
    Grant,
    RunCommand,
    Use,
    decide,
    for_model,
    parse_command,
    sanitise,
)
from vegakit.ports import Ran, Sandbox
from vegakit.tools.functions import ToolArgumentsError
from vegakit.tools.rights import Rights

__all__ = ["ExecTool", "shown_run"]

_EXEC = "process::exec"
_MARGIN_MS = 10_000
_MOST_BYTES = 28_000
"""Of each stream: both are less than any result may have."""
_DESCRIPTION = (
    "Run one command in a sandbox: no shell, no network; only the project folder is writable. "
    'Give it as a list of words, ["pytest", "-q", "tests"], one program each time.'
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}],
            "description": "program and arguments",
        }
    },
    "required": ["command"],
    "additionalProperties": False,
}


class ExecTool:
    repeatable = False

    def __init__(
        self,
        sandbox: Sandbox,
        grant: Grant,
        *,
        owner: str,
        automatic: bool = False,
        timeout_ms: int = 120_000 + _MARGIN_MS,
    ) -> None:
        self.spec = ToolSpec("exec", _DESCRIPTION, _SCHEMA)
        self.timeout_ms = timeout_ms
        self._sandbox = sandbox
        self._grant = grant
        self._owner = owner
        self._automatic = automatic

    async def call(self, arguments: Mapping[str, Any], deps: object) -> str:
        del deps
        verdict = self.verdict(_command(arguments))
        if isinstance(verdict, Denied):
            raise CapabilityDenied(verdict.reason)
        assert isinstance(verdict.wanted, RunCommand)
        return shown_run(await self._sandbox.run(verdict.wanted.argv, owner=self._owner))

    def rights(self, arguments: Mapping[str, Any]) -> Rights:
        """A command that is denied wants nothing: the call itself says why it does not run."""
        verdict = self.verdict(_command(arguments))
        if isinstance(verdict, Denied):
            return Rights((), self._grant, sandboxed=True)
        assert isinstance(verdict.wanted, RunCommand)
        grant = _only(verdict.wanted) if self._automatic else self._grant
        return Rights((verdict.wanted,), grant, sandboxed=True)

    def verdict(self, command: RunCommand | Denied) -> Allowed | Denied:
        if isinstance(command, Denied):
            return command
        if not self._automatic:
            return decide(self._grant, command)
        granted = decide(self._grant, Use(_EXEC))
        return granted if isinstance(granted, Denied) else _alone(command)


def shown_run(ran: Ran) -> str:
    """For a model: what it said, between the marks of what is not to be trusted, then how it ended.
    Each stream is cut by itself, so that the marks stay on it."""
    streams = [
        f"{name}:\n{for_model(sanitise(text.rstrip(), _MOST_BYTES))}"
        for name, text in (("stdout", ran.stdout), ("stderr", ran.stderr))
        if text.strip()
    ]
    return "\n".join([*streams, *ran.notes, f"exit code {ran.exit_code} in {ran.duration_ms} ms"])


def _command(arguments: Mapping[str, Any]) -> RunCommand | Denied:
    match dict(arguments):
        case {"command": str(line), **rest} if not rest:
            return parse_command(line)
        case {"command": [*words], **rest} if not rest and all(isinstance(w, str) for w in words):
            return RunCommand(tuple(words))
        case _:
            raise ToolArgumentsError(
                "the arguments of exec are wrong: give `command` as a list of words, for example "
                f'["pytest", "-q"], and nothing else; got {", ".join(arguments) or "nothing"}'
            )


def _alone(command: RunCommand) -> Allowed | Denied:
    """What is left to decide is whether it is clean."""
    try:
        return decide(_only(command), command)
    except InvalidRuleError as error:
        return Denied(str(error))


def _only(command: RunCommand) -> Grant:
    """Its program with any arguments."""
    program = command.argv[0] if command.argv else ""
    return Grant((_EXEC,), commands=(f"{program} ***",))
