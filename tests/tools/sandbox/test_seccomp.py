"""The filter: what is kept beside the code is what the code says, and it decides as its table."""

import struct

import pytest

from vegakit.tools.sandbox.seccomp import MACHINES, filter_file, program

ALLOWED, REFUSED, UNKNOWN, KILLED = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
X86, ARM = "x86_64", "aarch64"
AF_UNIX, AF_INET, AF_VSOCK = 1, 2, 40


def decided(filter_: bytes, arch: int, number: int, *arguments: int) -> int:
    """A classic BPF machine, as the kernel has one."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    about = struct.pack("=IIQ6Q", number, arch, 0, *padded)
    steps = [struct.unpack_from("=HBBI", filter_, at) for at in range(0, len(filter_), 8)]
    value = at = 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("=I", about, k)
            case 0x54:
                value &= k
            case 0x05:
                at += k
            case 0x06:
                return k
            case _:
                holds = {0x15: value == k, 0x35: value >= k, 0x45: bool(value & k)}[code]
                at += yes if holds else no


@pytest.mark.parametrize("machine", MACHINES)
def test_the_kept_filter_is_the_written_one(machine: str) -> None:
    assert filter_file(machine).read_bytes() == program(machine)


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "decision"),
    [
        (X86, 0, (), ALLOWED),  # read
        (X86, 101, (), REFUSED),  # ptrace
        (X86, 165, (), REFUSED),  # mount
        (X86, 425, (), REFUSED),  # io_uring_setup
        (X86, 435, (), UNKNOWN),  # clone3
        (X86, 0x40000000, (), UNKNOWN),  # read by its x32 number
        (X86, 56, (0x11,), ALLOWED),  # fork
        (X86, 56, (0x10000000,), REFUSED),  # a user namespace
        (X86, 41, (AF_INET,), ALLOWED),
        (X86, 41, (AF_UNIX,), REFUSED),
        (X86, 41, (AF_VSOCK,), REFUSED),
        (X86, 41, (0x1_0000_0001,), REFUSED),  # the kernel looks at 32 bits
        (X86, 53, (AF_UNIX, 0o2000001), ALLOWED),  # a stream, close on exec
        (X86, 53, (AF_UNIX, 2), REFUSED),
        (X86, 16, (0, 0x5401), ALLOWED),
        (X86, 16, (0, 0x5412), REFUSED),
        (X86, 16, (0, 0x541C), REFUSED),
        (X86, 90, (0, 0o755), ALLOWED),
        (X86, 90, (0, 0o4755), REFUSED),
        (X86, 257, (0, 0, 0o101, 0o644), ALLOWED),
        (X86, 257, (0, 0, 0o101, 0o2755), REFUSED),
        (X86, 257, (0, 0, 0, 0o4755), ALLOWED),  # nothing is made, the mode is not looked at
        (X86, 257, (0, 0, 0o20200002, 0o600), ALLOWED),  # a file without a name
        (X86, 257, (0, 0, 0o20200002, 0o2745), REFUSED),
        (X86, 2, (0, 0o20200002, 0o4745), REFUSED),
        (ARM, 56, (0, 0, 0o20040002, 0o2745), REFUSED),
        (ARM, 63, (), ALLOWED),  # read
        (ARM, 117, (), REFUSED),  # ptrace
        (ARM, 198, (AF_UNIX,), REFUSED),
        (ARM, 220, (0x20000000,), REFUSED),  # clone, a process namespace
        (ARM, 53, (0, 0, 0o4755), REFUSED),  # fchmodat
    ],
)
def test_calls(machine: str, number: int, arguments: tuple[int, ...], decision: int) -> None:
    assert decided(program(machine), MACHINES[machine], number, *arguments) == decision


def test_calls_of_another_machine_kill() -> None:
    """Its numbers mean other calls."""
    assert decided(program(X86), 0x40000003, 0) == KILLED
