"""CrossHair on the Python that is made of nodes: a second solver beside the proofs.

It executes a function of plain values on symbolic ones, path after path. How many paths is a
number, so that what it finds does not depend on the speed of a machine.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from vegakit.contracts import (
    ArrayType,
    BooleanType,
    BytesType,
    DecimalType,
    EnumType,
    MapType,
    NodeProgram,
    NodeType,
    RecordType,
    SetType,
    TextType,
    TimestampType,
    python_name,
    python_source,
)

_CROSSHAIR_HEAD = """
from datetime import UTC as _utc, datetime as _datetime, timedelta as _timedelta
from decimal import Decimal as _decimal


def _instant(n):
    return _datetime(1970, 1, 1, tzinfo=_utc) + _timedelta(microseconds=n)


"""
_MOST_PATHS = 40


def crosshair_source(node: NodeProgram) -> str:
    """Return the generated Python with a function that CrossHair searches: it takes plain values,
    numbers in units of their last place, and says whether the contract is kept. What has to hold
    before is told apart from what has to hold after by its number: both may have the same text."""
    names = [python_name(each.name) for each in node.inputs]
    kinds = [each.type for each in node.inputs]
    plain = ", ".join(
        f"{name}: {_plain_type(kind)}" for name, kind in zip(names, kinds, strict=True)
    )
    given = ", ".join(
        f"{name}={_converted(kind, name)}" for name, kind in zip(names, kinds, strict=True)
    )
    fits = " and ".join(f"({_fits(kind, name)})" for name, kind in zip(names, kinds, strict=True))
    source, made = python_source(node, node.node_id), 0
    lines = list[str]()
    for line in source.splitlines():
        is_check = line.startswith("    _check(")
        made += is_check
        is_before = is_check and made <= len(node.before)
        lines.append(line.replace("_check('", "_check('before ", 1) if is_before else line)
    return "\n".join(lines) + (
        f"\n{_CROSSHAIR_HEAD}def keeps_contract({plain}) -> bool:\n"
        '    """\n    post: __return__\n    """\n'
        f"    if not ({fits}):\n        return True\n"
        f"    try:\n        {node.node_id}({given})\n"
        "    except NodeError:\n        return True\n"
        "    except NodeStopped:\n        return False\n"
        "    except ContractBroken as error:\n"
        "        return error.args[0].startswith('before ')\n"
        "    return True\n"
    )


def _plain_type(kind: NodeType) -> str:
    match kind:
        case ArrayType(item=item) | SetType(item=item):
            return f"list[{_plain_type(item)}]"
        case MapType(key=key, value=value):
            return f"dict[{_plain_type(key)}, {_plain_type(value)}]"
        case RecordType(fields=fields):
            return f"tuple[{', '.join(_plain_type(part) for _, part in fields)}]"
        case _:
            plain: dict[type, str] = {BooleanType: "bool", TextType: "str", BytesType: "bytes"}
            return plain.get(type(kind), "int")


def _fits(kind: NodeType, name: str) -> str:
    """Return the code that says whether a plain value is one of a type."""
    match kind:
        case DecimalType():
            return f"abs({name}) < 10**38"
        case TimestampType():
            return f"-62_135_596_800_000_000 <= {name} <= 253_402_300_799_999_999"
        case ArrayType(item=item, max_items=most) | SetType(item=item, max_items=most):
            inner = f"all({_fits(item, 'each')} for each in {name})"
            different = f" and len({{*{name}}}) == len({name})" if isinstance(kind, SetType) else ""
            return f"len({name}) <= {most} and {inner}{different}"
        case MapType(key=key, value=value, max_items=most):
            inner = f"{_fits(key, 'key')} and {_fits(value, 'value')}"
            return f"len({name}) <= {most} and all({inner} for key, value in {name}.items())"
        case RecordType(fields=fields):
            return " and ".join(_fits(part, f"{name}[{n}]") for n, (_, part) in enumerate(fields))
        case TextType(max_length=most) | BytesType(max_length=most):
            return f"len({name}) <= {most}"
        case BooleanType():
            return "True"
        case _:
            return f"-(2**63) <= {name} < 2**63"


def _converted(kind: NodeType, name: str) -> str:
    match kind:
        case DecimalType(scale=scale):
            return f"_decimal({name}).scaleb(-{scale})"
        case TimestampType():
            return f"_instant({name})"
        case EnumType(choices=choices):
            return f"{choices!r}[{name} % {len(choices)}]"
        case ArrayType(item=item):
            return f"[{_converted(item, 'each')} for each in {name}]"
        case SetType(item=item):
            return f"frozenset({_converted(item, 'each')} for each in {name})"
        case MapType(key=key, value=value):
            pairs = f"{_converted(key, 'key')}: {_converted(value, 'value')}"
            return f"{{{pairs} for key, value in {name}.items()}}"
        case RecordType(fields=fields):
            parts = enumerate(fields)
            pairs = (f"{field!r}: {_converted(part, f'{name}[{n}]')}" for n, (field, part) in parts)
            return f"{{{', '.join(pairs)}}}"
        case _:
            return name


def crosshair_finding(node: NodeProgram, paths: int = _MOST_PATHS) -> str:
    """Return what CrossHair says against a node after so many paths, or nothing."""
    # By name: its package is only partly typed.
    crosshair: Any = importlib.import_module("crosshair.core_and_libs")
    settings: Any = importlib.import_module("crosshair.options")
    # The number of paths decides. A path that the solver cannot end in a minute is left out: that
    # may hide a finding, and never makes one.
    options = settings.AnalysisOptionSet(
        max_iterations=paths, per_condition_timeout=3_600.0, per_path_timeout=60.0
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"searched_{node.node_id}.py"
        file.write_text(crosshair_source(node), "utf-8")
        spec = importlib.util.spec_from_file_location(file.stem, file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        found = crosshair.run_checkables(crosshair.analyze_function(module.keeps_contract, options))
        del sys.modules[file.stem]
    bad = [crosshair.MessageType[each] for each in ("POST_FAIL", "EXEC_ERR", "POST_ERR")]
    return next((each.message for each in found if each.state in bad), "")
