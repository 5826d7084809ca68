"""What people complain about in coding agents, as scripted trajectories that any of them can be
driven through.

    setup.sh          puts the rivals into a cache folder outside of the repository
    watch.py          one start of an agent: limits, kills, what its process tree cost and left
    agents.py         how each is started, resumed and undone, and what its tools are called
    bench.py          a home, a workspace, the scripted provider, and what is seen of a run
    complaints/*.py   the trajectories, each with the threads it comes from and what must hold
    __main__.py       all of them, as a table

One trajectory is one function. It says what the model answers, starts the agent, and then says what
must hold; the same lines are held against every agent.
"""
