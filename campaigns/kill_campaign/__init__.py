"""A campaign of kills: generated programs as OS processes, killed, resumed until done, and judged.

    programs   generated programs over all constructs of the language, the same for the same seed
    provider   an HTTP server of our own that answers by the request alone and keeps its own log
    nursery    forks `vega` commands from a warm process; logs each reply that a command received
    player     the lives of one run: start, kill, answer, raise the budget, resume
    judge      what a run left behind, against an undisturbed run and the provider's log

It shares nothing with the runtime that it judges: it types commands, reads sockets, and opens the
store with plain `sqlite3`.
"""
