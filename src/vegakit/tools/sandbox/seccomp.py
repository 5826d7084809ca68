"""The filter of kernel calls that a sandboxed command may not make; bubblewrap loads it.

| call                                            | refused                                     |
|-------------------------------------------------|---------------------------------------------|
| those of `_REFUSED`                             | always                                      |
| clone                                           | with a new namespace                        |
| clone3, openat2                                 | as unknown: their flags cannot be looked at |
| memfd_create                                    | as unknown: such memory is not counted      |
| fallocate                                       | as unsupported: it is too quick to be ended |
| socket                                          | except IPv4, IPv6 and netlink               |
| socketpair                                      | datagrams, which can be sent elsewhere      |
| ioctl                                           | typing into a terminal                      |
| chmod, fchmod, fchmodat, mknod, creat, open ... | with a set-user-id or set-group-id bit      |
| any, of another architecture                    | the process is killed                       |

The filters are kept beside this file; `python -m vegakit.tools.sandbox.seccomp` writes them
anew.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

_EPERM, _ENOSYS, _EOPNOTSUPP = 1, 38, 95
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000
_NEW_NAMESPACE = 0x7E020000
_SET_ID = 0o6000
_MAKES = 0o100 | 0o20000000
"""O_CREAT, and the bit of O_TMPFILE that is its own: with either, open heeds the mode."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPE = 1, 5, 0xF

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "syslog": (103, 116),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
}
_UNKNOWN = {
    "clone3": (435, 435),
    "openat2": (437, 437),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
}
"""Memory that is a file belongs to no process, so nobody counts it."""
_UNSUPPORTED = {"fallocate": (285, 47)}
"""It takes any size of disk at once, before anybody has looked; who asks for it writes instead."""


class _Has(NamedTuple):
    """Looked at further only with one of these bits in this argument."""

    argument: int
    bits: int


class _Is(NamedTuple):
    argument: int
    values: tuple[int, ...]


class _IsNot(NamedTuple):
    argument: int
    values: tuple[int, ...]
    mask: int = 0xFFFFFFFF


_Condition = _Has | _Is | _IsNot
_REFUSED_WITH: tuple[tuple[tuple[int | None, int | None], tuple[_Condition, ...]], ...] = (
    ((56, 220), (_Has(0, _NEW_NAMESPACE),)),  # clone
    ((41, 198), (_IsNot(0, (_AF_INET, _AF_INET6, _AF_NETLINK)),)),  # socket
    ((53, 199), (_IsNot(1, (_SOCK_STREAM, _SOCK_SEQPACKET), _SOCK_TYPE),)),  # socketpair
    ((16, 29), (_Is(1, (_TIOCSTI, _TIOCLINUX)),)),  # ioctl
    ((90, None), (_Has(1, _SET_ID),)),  # chmod
    ((91, 52), (_Has(1, _SET_ID),)),  # fchmod
    ((268, 53), (_Has(2, _SET_ID),)),  # fchmodat
    ((452, 452), (_Has(2, _SET_ID),)),  # fchmodat2
    ((133, None), (_Has(1, _SET_ID),)),  # mknod
    ((259, 33), (_Has(2, _SET_ID),)),  # mknodat
    ((85, None), (_Has(1, _SET_ID),)),  # creat
    ((2, None), (_Has(1, _MAKES), _Has(2, _SET_ID))),  # open
    ((257, 56), (_Has(2, _MAKES), _Has(3, _SET_ID))),  # openat
)


class _Code(IntEnum):
    LOAD = 0x20
    AND = 0x54
    JUMP = 0x05
    IF_EQUAL = 0x15
    IF_AT_LEAST = 0x35
    IF_ANY_BIT = 0x45
    RETURN = 0x06


class _Step(NamedTuple):
    """`yes` and `no` are how many steps to skip."""

    code: _Code
    value: int
    yes: int = 0
    no: int = 0


def filter_file(machine: str) -> Path:
    """Return the file of the filter for this machine."""
    return Path(__file__).with_name(f"seccomp_{machine}.bpf")


def program(machine: str) -> bytes:
    """Return the filter for this machine as bytes."""
    steps = [
        _Step(_Code.LOAD, 4),
        _Step(_Code.IF_EQUAL, MACHINES[machine], yes=1),
        _Step(_Code.RETURN, _KILL),
        _Step(_Code.LOAD, 0),
        *_blocks([*MACHINES].index(machine)),
        _Step(_Code.RETURN, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", code, yes, no, value) for code, value, yes, no in steps)


def _blocks(column: int) -> Iterator[_Step]:
    if column == 0:
        yield _Step(_Code.IF_AT_LEAST, _X32, no=1)
        yield _Step(_Code.RETURN, _ERRNO | _ENOSYS)
    refused = ((_EPERM, _REFUSED), (_ENOSYS, _UNKNOWN), (_EOPNOTSUPP, _UNSUPPORTED))
    for error, calls in refused:
        for numbers in calls.values():
            yield from _block(numbers[column], [_Step(_Code.RETURN, _ERRNO | error)])
    for numbers, conditions in _REFUSED_WITH:
        yield from _block(numbers[column], _conditional(conditions))


def _block(number: int | None, body: list[_Step]) -> Iterator[_Step]:
    if number is not None:
        yield _Step(_Code.IF_EQUAL, number, no=len(body))
        yield from body


def _conditional(conditions: tuple[_Condition, ...]) -> list[_Step]:
    """Built from its end, where the two ways out stand: refuse, then allow."""
    steps = [_Step(_Code.RETURN, _ERRNO | _EPERM), _Step(_Code.RETURN, _ALLOW)]
    for condition in reversed(conditions):
        steps = [*_tests(condition, to_allow=len(steps) - 1), *steps]
    return steps


def _tests(condition: _Condition, to_allow: int) -> list[_Step]:
    load = _Step(_Code.LOAD, 16 + 8 * condition.argument)
    match condition:
        case _Has(_, bits):
            return [load, _Step(_Code.IF_ANY_BIT, bits, no=to_allow)]
        case _IsNot(_, values, mask):
            left = len(values) - 1
            equal = [
                _Step(_Code.IF_EQUAL, value, yes=to_allow + left - at)
                for at, value in enumerate(values)
            ]
            return [load, _Step(_Code.AND, mask), *equal]
        case _Is(_, values):
            equal = [
                _Step(_Code.IF_EQUAL, value, yes=len(values) - at)
                for at, value in enumerate(values)
            ]
            return [load, *equal, _Step(_Code.JUMP, to_allow)]


if __name__ == "__main__":
    for name in MACHINES:
        filter_file(name).write_bytes(program(name))
