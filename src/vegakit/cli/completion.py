"""`vega completion` and `vega version`: what a shell and a report of a bug ask of the command.

The scripts are made from the table of commands and from the parsers of the commands themselves, so
that they name what there is. A parser is read by asking its command for help.
"""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module

from vegakit.cli.main import COMMANDS, Argument, CommandParser, version_line

SHELLS = ("bash", "zsh", "fish")
_FLAG = re.compile(r"^\s{2,}(?:-\w,? ?(?:\S+, )?)?(--[\w-]+)", re.MULTILINE)
_ACTIONS = re.compile(r"[a-z-]+(?: \| [a-z-]+)+")
"""The words that follow a command, as its help names them: `start | status | stop`."""


def version_command(arguments: Sequence[str]) -> int:
    """Run `vega version`."""
    CommandParser(prog="vega version", description="Say which version this is.").parse_args(
        arguments
    )
    print(version_line())
    return 0


def completion_command(arguments: Sequence[str]) -> int:
    """Run `vega completion`."""
    parser = CommandParser(
        prog="vega completion",
        description="Print a script that completes commands and their flags. For bash, add to "
        "~/.bashrc: source <(vega completion bash). For zsh, to ~/.zshrc: source <(vega completion "
        "zsh). For fish: vega completion fish > ~/.config/fish/completions/vega.fish",
        arguments=[Argument("shell", choices=SHELLS)],
    )
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[parser.parse_args(arguments).shell]
    print(made({name: flags_of(name) for name in COMMANDS}), end="")
    return 0


def flags_of(name: str) -> list[str]:
    """Return the words and the flags of a command, by its own help."""
    shown = io.StringIO()
    command = getattr(import_module(COMMANDS[name].module), f"{name}_command")
    with redirect_stdout(shown), redirect_stderr(io.StringIO()), suppress(SystemExit):
        command(["--help"])
    found = _FLAG.findall(shown.getvalue())
    actions = " | ".join(_ACTIONS.findall(shown.getvalue())).split(" | ")
    flags = sorted({*found, "--color", "--exact"} - {"--help"})
    return [*filter(None, dict.fromkeys(actions)), *flags, "--help"]


def _bash(flags: dict[str, list[str]]) -> str:
    cases = "\n".join(f"    {name}) words='{' '.join(found)}' ;;" for name, found in flags.items())
    return f"""\
_vega() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" words=''
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{" ".join(flags)} --help --version' -- "$word"))
    return
  fi
  case "${{COMP_WORDS[1]}}" in
{cases}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$word" | grep -v '^-') $(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _vega vega vegakit
"""


def _zsh(flags: dict[str, list[str]]) -> str:
    names = "\n".join(f"    '{name}:{_said(name)}'" for name in flags)
    cases = "\n".join(f"    {name}) found=({' '.join(all_)}) ;;" for name, all_ in flags.items())
    return f"""\
#compdef vega vegakit
_vega() {{
  local -a commands found
  commands=(
{names}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  case "${{words[2]}}" in
{cases}
  esac
  if [[ "$PREFIX" == -* ]]; then
    compadd -a found
  else
    compadd -- ${{found:#-*}}
    _files
  fi
}}
compdef _vega vega vegakit
"""


def _fish(flags: dict[str, list[str]]) -> str:
    lines = ["complete -c vega -n __fish_use_subcommand -f"]
    lines += [
        f"complete -c vega -n __fish_use_subcommand -f -a {name} -d '{_said(name)}'"
        for name in flags
    ]
    for name, found in flags.items():
        lines += [
            f"complete -c vega -n '__fish_seen_subcommand_from {name}' {_fish_argument(flag)}"
            for flag in found
        ]
    return "\n".join(lines) + "\n"


def _fish_argument(name: str) -> str:
    flag = name.removeprefix("--")
    return f"-a {name}" if flag == name else f"-l {flag}"


def _said(name: str) -> str:
    """Return the line on a command as a shell can quote it; zsh reads a colon as an end."""
    return COMMANDS[name].line.replace("'", "").replace(":", ";")
