r"""The launcher and its child supervisors: a program that runs in processes of its own.

    runtime ── groups, one descriptor ──▶ launcher ── fork ──▶ supervisor ── spawn ──▶ command
       └───────────────────────── control ───────────────────────┘

A supervisor adopts whatever its command orphans (it is a subreaper), so neither `setsid` nor a
double fork escapes it. It kills the whole tree when the command has exited by itself, when
control is shut and when the runtime has died; then it waits for the next command. On control:

    to the supervisor    {"argv", "cwd", ...}\n         from it    started <pid>\n
                       with stdin, stdout, stderr              failed <errno> <step>\n
                     t            SIGTERM to all
                     end of file  SIGKILL to all               ended <exit code>\n   all are gone

A dead launcher takes nothing along; the tree of a dead supervisor falls to the launcher, which
kills it. Nothing here can gain rights (`sudo` refuses), for what has other rights cannot be
killed. Off Linux the process group stands for the tree: written for macOS, untested, and what
calls `setsid` there escapes.

It is run by its folder, so that nothing else of ours is imported: it is small, and forks fast.
"""

from .child_supervisor import main

__all__ = [
    "main",
]
