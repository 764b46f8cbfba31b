"""Splits a wheel of mblob in two: `mblob`, for machines that run libraries, and `mblob-packager`, the rest.

python3 wheel_parts.py WHEEL [-o FOLDER]

Both install into the package `mblob`. The extra `pack` of the first requires the second in the same version. A wheel
that pip builds from a clone or from the source archive is not split: it has both parts, so that its extra `pack`
works without an index that has mblob-packager.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

NAME = "mblob-packager"
# What compiles and links: rooms and modules of the packager, as `PARTS` and `MODULES` in packager/__init__.py, C
# sources, static libraries.
PACKAGER = (
    *(f"mblob/packager/{room}/" for room in ("byoc", "compile", "device", "functions", "link", "standalone")),
    *(f"mblob/packager/{module}.py" for module in ("edit/add_code", "edit/convert", "edit/standalone", "join/join")),
    "mblob/loader/_lib/mblob.c",
    "mblob/loader/_lib/mblob-plugins.c",
    "mblob/loader/_lib/mblob-core.o",
    "mblob/loader/_lib/libmblob.a",
    "mblob/loader/_lib/libmblob-ffi.a",
    "mblob/loader/_lib/pkgconfig/mblob-static",
)  # fmt: skip
ABOUT = """\
This is the part of [mblob]({home}) that compiles and links libraries, with its C file and static libraries.
Install it with `pip install 'mblob[pack]'`.
"""


def split(wheel: Path, folder: Path) -> tuple[Path, Path]:
    """Split a wheel.

    Returns:
        The wheels of mblob and of mblob-packager, in `folder`. The second is for every Python 3.

    Raises:
        ValueError: the wheel is split already, or not of mblob.
    """
    name, version, *_, platform = wheel.stem.split("-")
    with zipfile.ZipFile(wheel) as archive:
        files = {i.filename: archive.read(i) for i in archive.infolist() if not i.is_dir()}
        modes = {i.filename: i.external_attr for i in archive.infolist()}
    theirs = {path: data for path, data in files.items() if path.startswith(PACKAGER)}
    if name != "mblob" or not theirs:
        raise ValueError(f"{wheel.name}: expected a wheel of mblob with its packager")
    ours = {path: data for path, data in files.items() if path not in theirs}
    info = f"mblob-{version}.dist-info"
    text = ours[f"{info}/METADATA"].decode()
    requirement = f'Requires-Dist: {NAME}=={version}; extra == "pack"\n'
    ours[f"{info}/METADATA"] = text.replace(
        "Provides-Extra: pack\n", f"Provides-Extra: pack\n{requirement}"
    ).encode()
    own = f"{NAME.replace('-', '_')}-{version}.dist-info"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    theirs[f"{own}/METADATA"] = _metadata(text, version).encode()
    theirs[f"{own}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: mblob\nRoot-Is-Purelib: false\n{tags}".encode()
    )
    theirs[f"{own}/licenses/LICENSE"] = ours[f"{info}/licenses/LICENSE"]
    folder.mkdir(parents=True, exist_ok=True)
    first = folder / wheel.name
    second = folder / f"{NAME.replace('-', '_')}-{version}-py3-none-{platform}.whl"
    _write(first, ours, info, modes)
    _write(second, theirs, own, modes)
    return first, second


def _metadata(text: str, version: str) -> str:
    """Core metadata of mblob-packager, from that of mblob."""
    fields = text.partition("\n\n")[0].splitlines()
    kept = (
        "Metadata-V",
        "Version",
        "License",
        "Project-URL",
        "Classifier",
        "Requires-Python",
        "Description",
    )
    lines = [field for field in fields if field.startswith(kept)]
    summary = "Compiles and links the libraries of mblob: pip install 'mblob[pack]'"
    lines[1:1] = [f"Name: {NAME}", f"Summary: {summary}", f"Requires-Dist: mblob[pack]=={version}"]
    (home,) = re.findall(r"^Project-URL: Homepage, (.*)$", text, re.MULTILINE)
    return "\n".join([*lines, "", ABOUT.format(home=home)])


def _write(path: Path, files: dict[str, bytes], info: str, modes: dict[str, int]) -> None:
    """Write a wheel: RECORD, new, is the last of its files."""
    record = f"{info}/RECORD"
    files.pop(record, None)
    lines = []
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(data)}\n")
            archive.writestr(
                _entry(name, modes), data, compresslevel=9
            )  # the archive's is not used
        archive.writestr(_entry(record, modes), "".join([*lines, f"{record},,\n"]))


def _entry(name: str, modes: dict[str, int]) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = modes.get(name, 0o100644 << 16)
    return entry


def main(argv: Sequence[str] | None = None) -> None:
    """Split what the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), help="(default: dist)")
    arguments = parser.parse_args(argv)
    try:
        made = split(arguments.wheel, arguments.output)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SystemExit(f"wheel_parts.py: {error}") from None
    for path in made:
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
