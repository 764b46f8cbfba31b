"""The names that people call machines: one table for all places that name one. Files have the names
of `elf_records.MACHINES`."""

from __future__ import annotations

from mblob.named_tuple import NamedTuple


class MachineAlias(NamedTuple):
    """A machine as files name it; `bits` and `endian` are None where the name leaves them open."""

    name: str
    bits: int | None = None
    endian: str | None = None


# What each name of a file is also called; letters in either case, "-" and "_" are one.
_CALLED = {
    MachineAlias("x86_64"): "x86-64 amd64 x64 intel64",
    MachineAlias("i386"): "i486 i586 i686 x86 ia32",
    MachineAlias("aarch64"): "arm64 armv8 armv8a",
    MachineAlias("aarch64", 64, "big"): "aarch64_be",
    MachineAlias("arm"): "arm32 armhf armel armv6 armv6l armv7 armv7a armv7l",
    MachineAlias("ppc"): "powerpc ppc32",
    MachineAlias("ppc64"): "powerpc64",
    MachineAlias("ppc64", 64, "little"): "ppc64le ppc64el powerpc64le",
    MachineAlias("riscv"): "",
    MachineAlias("riscv", 64): "riscv64 rv64",
    MachineAlias("riscv", 32): "riscv32 rv32",
    MachineAlias("s390x"): "s390 systemz",
    MachineAlias("loongarch"): "",
    MachineAlias("loongarch", 64): "loongarch64 loong64",
    MachineAlias("mips"): "",
    MachineAlias("mips", 32, "little"): "mipsel",
    MachineAlias("mips", 64): "mips64",
    MachineAlias("mips", 64, "little"): "mips64el",
    MachineAlias("sparc"): "",
    MachineAlias("sparc64"): "sparcv9",
    MachineAlias("m68k"): "",
    MachineAlias("parisc"): "hppa",
    MachineAlias("sh"): "sh4 superh",
    MachineAlias("alpha"): "",
    MachineAlias("hexagon"): "qdsp6",
    MachineAlias("arm64_32"): "",
    MachineAlias("arm64ec"): "",
}
_BY_NAME = {
    _name: machine
    for machine, names in _CALLED.items()
    for _name in (
        *([machine.name] if machine == MachineAlias(machine.name) else []),
        *names.replace("-", "_").split(),
    )
}


def machine_of(name: str) -> MachineAlias | None:
    """The machine that people call so, None if nobody does."""
    return _BY_NAME.get(name.strip().lower().replace("-", "_"))


def fits(wanted: MachineAlias, name: str, bits: int, endian: str) -> bool:
    """True if a file whose header names `name` is for a machine."""
    known = machine_of(name) or MachineAlias(name)
    return (
        wanted.name == known.name
        and wanted.bits in (None, bits)
        and wanted.endian in (None, endian)
    )


def known_names() -> str:
    """All names, for people."""
    groups: dict[str, list[str]] = {}
    for machine, names in _CALLED.items():
        groups.setdefault(machine.name, []).extend(names.split())
    return ", ".join(
        f"{name} ({', '.join(also)})" if also else name for name, also in groups.items()
    )
