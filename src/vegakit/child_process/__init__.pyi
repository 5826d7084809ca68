from vegakit.child_process.children import ChildProcess as ChildProcess, Children as Children
