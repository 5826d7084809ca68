"""Tools written in a YAML file: commands, requests and functions of the user's own (adapter, host).

The file is checked as a whole: either all of its tools are there or none, and while it is wrong the
tools of its last good state stay.
"""

from vegakit.tools.yaml_tools.loading import ToolFile, ToolFileError
from vegakit.tools.yaml_tools.tables import tools_schema

__all__ = ["ToolFile", "ToolFileError", "tools_schema"]
