"""Others add commands, sub-agents, hooks and tools to a session of the coding agent, as files or by
a plugin.

    files of the home, trusted files of the project ─┐
                                                     ├─▶ one set for a turn, kept with it
    plugins that the settings name, described by  ───┘         │
    a child in the sandbox                                     └─▶ tools, `task`, prompts, hooks

A set is data, and the same after a kill. Nothing in it runs in the process of the session, and
nothing in it can allow what the session's own rules do not.
"""

__all__: list[str] = []
