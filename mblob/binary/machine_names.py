"""What people call machines: one table for wherever one is named. Files have the names of `elf_records.MACHINES`."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """A machine as files name it; `bits` and `endian` are None where the name leaves them open."""

    name: str
    bits: int | None = None
    endian: str | None = None


# What each name of a file is also called; letters in either case, "-" and "_" are one.
_CALLED = {
    Machine("x86_64"): "x86-64 amd64 x64 intel64",
    Machine("i386"): "i486 i586 i686 x86 ia32",
    Machine("aarch64"): "arm64 armv8 armv8a",
    Machine("aarch64", 64, "big"): "aarch64_be",
    Machine("arm"): "arm32 armhf armel armv6 armv6l armv7 armv7a armv7l",
    Machine("ppc"): "powerpc ppc32",
    Machine("ppc64"): "powerpc64",
    Machine("ppc64", 64, "little"): "ppc64le ppc64el powerpc64le",
    Machine("riscv"): "",
    Machine("riscv", 64): "riscv64 rv64",
    Machine("riscv", 32): "riscv32 rv32",
    Machine("s390x"): "s390 systemz",
    Machine("loongarch"): "",
    Machine("loongarch", 64): "loongarch64 loong64",
    Machine("mips"): "",
    Machine("mips", 32, "little"): "mipsel",
    Machine("mips", 64): "mips64",
    Machine("mips", 64, "little"): "mips64el",
    Machine("sparc"): "",
    Machine("sparc64"): "sparcv9",
    Machine("m68k"): "",
    Machine("parisc"): "hppa",
    Machine("sh"): "sh4 superh",
    Machine("alpha"): "",
    Machine("hexagon"): "qdsp6",
    Machine("arm64_32"): "",
    Machine("arm64ec"): "",
}
_BY_NAME = {
    _name: machine
    for machine, names in _CALLED.items()
    for _name in (*([machine.name] if machine == Machine(machine.name) else []), *names.replace("-", "_").split())
}


def machine_of(name: str) -> Machine | None:
    """The machine that people call so, None if nobody does."""
    return _BY_NAME.get(name.strip().lower().replace("-", "_"))


def fits(wanted: Machine, name: str, bits: int, endian: str) -> bool:
    """Whether a file whose header names `name` is for a machine."""
    known = machine_of(name) or Machine(name)
    return wanted.name == known.name and wanted.bits in (None, bits) and wanted.endian in (None, endian)


def known_names() -> str:
    """All names, for people."""
    groups: dict[str, list[str]] = {}
    for machine, names in _CALLED.items():
        groups.setdefault(machine.name, []).extend(names.split())
    return ", ".join(f"{name} ({', '.join(also)})" if also else name for name, also in groups.items())
