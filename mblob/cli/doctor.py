"""`mblob-pack doctor`: what this machine can build, link, load and run, each with version and place.

Nothing is assumed: for every linker that is installed, a kernel is compiled, packed, loaded and
called.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mblob.cli import doctor_target
from mblob.cli.findings import Finding, attempt, report_lines, tool
from mblob.cli.report import INCOMPATIBLE
from mblob.cli.verbs import VERBS
from mblob.errors import MblobError
from mblob.installed import SONAME, library_dir
from mblob.interrupts import DeferredSignals
from mblob.native.runtime import lib
from mblob.temporary import temporary_folder

if TYPE_CHECKING:
    from mblob.loader.plugins import PluginInfo
    from mblob.typed import Embed

NAME = "doctor"
SCHEMA = "mblob/doctor/1"
CROSS_COMPILERS = (
    "aarch64-linux-gnu-gcc",
    "arm-linux-gnueabihf-gcc",
    "i686-linux-gnu-gcc",
    "powerpc64-linux-gnu-gcc",
    "riscv64-linux-gnu-gcc",
    "s390x-linux-gnu-gcc",
)
TRIAL_SOURCE = "void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] = 2 * x[i]; }\n"
TRIAL_PROTOTYPE = "void twice(float *x, long n)"


def configure(verbs: Any) -> None:
    """Add the verb to the command line."""
    summary = VERBS[NAME]
    parser = verbs.add_parser(
        NAME,
        help=summary,
        description=summary,
        epilog="example: mblob-pack doctor --json; mblob-pack doctor --target aarch64-linux-gnu",
    )
    parser.add_argument(
        "--target", metavar="TRIPLE", help="look at what packing for another machine needs"
    )
    parser.add_argument("--json", action="store_true", help=f"one JSON object, schema {SCHEMA}")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look, try, print. Exit code 6 when something needed is missing."""
    if args.target:
        findings = [*doctor_target.findings(args.target)]
        can = f"this machine can pack for {args.target}"
    else:
        findings = [*build_findings(), *link_findings(), *load_findings(), *extra_findings()]
        can = "this machine can build, load and run"
    ok = all(f.ok for f in findings if f.needed)
    if args.json:
        found = {"schema": SCHEMA, "ok": ok, "findings": [asdict(f) for f in findings]}
        print(json.dumps(found, indent=2))
    else:
        print(*report_lines(findings), verdict(findings, can), sep="\n")
    return 0 if ok else INCOMPATIBLE


def verdict(findings: list[Finding], can: str) -> str:
    """The last line of the report; `can` is what it says if nothing needed is missing."""
    missing = {f.section for f in findings if f.needed and not f.ok}
    if not missing:
        return can
    sections = {f.section for f in findings}
    if "load" in sections - missing:
        return "this machine can load and run; for building, see the lines with !!"
    return "something needed is missing: see the lines with !!"


# -- build -----------------------------------------------------------------------------------------


def build_findings() -> Iterator[Finding]:
    """Compilers: for C (needed), for C++, and for other machines."""
    yield tool("build", "C compiler", os.environ.get("CC") or "cc", needed=True)
    yield tool("build", "C++ compiler", os.environ.get("CXX") or "c++")
    for name in CROSS_COMPILERS:
        yield tool("build", name, name)


# -- load ------------------------------------------------------------------------------------------


def load_findings() -> Iterator[Finding]:
    """The C runtime, the loaders it knows, and what the system lets it do."""
    yield Finding(
        "load", "Python", ok=True, needed=True, version=sys.version.split()[0], place=sys.executable
    )
    yield attempt("load", "C runtime", native_runtime, needed=True)
    if absent_packager() is None:
        yield attempt("load", "registered loaders", registered_loaders)
    yield attempt("load", "open from memory", memory_file)
    yield from plugin_findings()
    yield from entry_point_findings()


def native_runtime() -> tuple[str, str]:
    """The C runtime: version of its interface, and which file it is."""
    return f"libmblob, ABI {lib.mblob_abi_version()}", str(library_dir() / SONAME)


def memory_file() -> tuple[str, str]:
    """Check that libraries can be opened from bytes: that takes an executable memory file."""
    os.close(os.memfd_create("mblob-doctor", 0))
    setting = Path("/proc/sys/vm/memfd_noexec")
    level = setting.read_text().strip() if setting.exists() else "0"
    if level == "2":
        raise OSError(f"{setting} is 2: this system refuses to execute memory files")
    return "memfd_create", ""


def plugin_findings() -> Iterator[Finding]:
    """Plug-ins of the C runtime, in the order in which they count, each with what it says of itself
    or lacks."""
    try:
        from mblob.loader.plugins import plugins

        found = plugins()
    except Exception as error:  # without the C runtime there are none, which is reported above
        yield Finding(
            "plug-ins",
            "plug-ins",
            ok=False,
            needed=False,
            version=f"{type(error).__name__}: {error}",
        )
        return
    if not found:
        where = "none; they are looked for on MBLOB_PLUGIN_PATH and beside libmblob"
        yield Finding("plug-ins", "plug-ins", ok=False, needed=False, version=where)
    first: dict[str, PluginInfo] = {}  # who opens a type key
    for plugin in found:
        if not plugin.problem:
            for key in plugin.type_keys:
                first.setdefault(key, plugin)
        serves = [f"type key {key}" for key in plugin.type_keys]
        serves += [f"device type {number}" for number in plugin.devices]
        name = plugin.name or Path(plugin.origin).name
        try:
            said = plugin.problem or plugin.describe()
            ok = not plugin.problem
        except Exception as error:
            said, ok = f"{error}; needs {plugin.needs}", False
        lost = (
            []
            if plugin.problem
            else [(key, first[key]) for key in plugin.type_keys if first[key] is not plugin]
        )
        for key, other in lost:
            said += f"; not used for {key}: {other.name} ({other.origin}) comes first"
        if any(Path(other.origin).parent == Path(plugin.origin).parent for _, other in lost):
            ok = False  # of two in one folder the name of the file decides, which nobody means
        yield Finding(
            "plug-ins",
            name,
            ok,
            needed=False,
            version=f"{said} ({', '.join(serves)})" if serves else said,
            place=plugin.origin,
        )


def entry_point_findings() -> Iterator[Finding]:
    """Loaders that installed distributions announce, each imported as the first module of its key
    would do it."""
    try:
        from mblob.inspect.payload_layouts import entry_points

        found = entry_points()
    except Exception as error:  # without the C runtime there are none, which is reported above
        yield Finding(
            "plug-ins",
            "Python loaders",
            ok=False,
            needed=False,
            version=f"{type(error).__name__}: {error}",
        )
        return
    if not found:
        yield Finding("plug-ins", "Python loaders", ok=True, needed=False, version="none")
    taken: dict[str, str] = {}  # the value that counts, by key
    for point in found:
        finding = attempt(
            "plug-ins", f"Python loader {point.name}", partial(load_entry_point, point)
        )
        if taken.setdefault(point.name, point.value) != point.value:
            finding = replace(
                finding, ok=False, version=f"{finding.version}; {taken[point.name]} comes first"
            )
        yield finding


def load_entry_point(point: Any) -> tuple[str, str]:
    """Load an entry point; its value, such as "package.module:function".

    Raises:
        Exception: it cannot be imported, or is no loader.
    """
    try:
        made = point.load()
    except Exception as error:
        raise ImportError(
            f"{point.value} does not load: {type(error).__name__}: {error}"
        ) from error
    if not callable(made):
        raise TypeError(f"{point.value} is {type(made).__name__}, expected a function")
    return point.value, ""


# -- command line ----------------------------------------------------------------------------------

# What is done with it, the package, the extra of mblob that brings it.
EXTRAS = (
    ("progress bar", "tqdm", "cli"),
    ("arrays", "numpy", "numpy"),
    ("bfloat16 and float8", "ml_dtypes", "numpy"),
    ("prototypes of C", "pycparser", "pack"),
    ("debug information", "pyelftools", "pack"),
    ("Mach-O, PE and COFF", "lief", "pack"),
)
MODULES = {"pyelftools": "elftools"}  # of packages whose module has another name


def extra_findings() -> Iterator[Finding]:
    """Packages that `mblob-pack` uses where they are installed."""
    for name, package, extra in EXTRAS:
        found = util.find_spec(MODULES.get(package, package))
        if found is None:
            missing = f"{package} is not installed: pip install 'mblob[{extra}]'"
            yield Finding("command line", name, ok=False, needed=False, version=missing)
            continue
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            version = "of no known version"
        yield Finding(
            "command line",
            name,
            ok=True,
            needed=False,
            version=f"{package} {version}",
            place=found.origin or "",
        )


# -- link and run ----------------------------------------------------------------------------------


def link_findings() -> Iterator[Finding]:
    """One trial with the compiler's own linker (needed), and one with each linker that is
    installed."""
    from mblob.packager.options import LINKERS

    if error := absent_packager():
        yield Finding("link and run", "packing", False, True, str(error))
        return
    yield attempt("link and run", "default linker", partial(trial, []), needed=True)
    for name in LINKERS:
        linker = tool("link and run", f"ld.{name}", f"ld.{name}")
        yield try_linker(linker, [f"-fuse-ld={name}"]) if linker.ok else linker


def absent_packager() -> MblobError | None:
    """The error of packing where the installation only runs libraries."""
    try:
        util.find_spec("mblob.packager.link")
    except MblobError as error:
        return error
    return None


def try_linker(linker: Finding, options: list[str]) -> Finding:
    """Try a linker that is installed: it can do everything, all but embed="grow" (the usual form),
    or nothing."""
    if attempt(linker.section, linker.name, partial(trial, options, embed="grow")).ok:
        return linker
    works = attempt(linker.section, linker.name, partial(trial, options))
    if not works.ok:
        return replace(linker, ok=False, version=works.version)
    return replace(
        linker, version=f"{linker.version}; only with --embed object or append, not grow"
    )


def trial(options: list[str], embed: Embed = "auto") -> tuple[str, str]:
    """Compile, pack, load and call a small kernel.

    Raises:
        Exception: whatever step of it failed.
    """
    import mblob

    with DeferredSignals(), temporary_folder() as folder:
        path = folder / "trial.so"
        module = mblob.csource_module(TRIAL_SOURCE, functions=[TRIAL_PROTOTYPE])
        module.import_module(mblob.blob_module("mblob.doctor", b"payload"))
        mblob.export_library(module, path, options=options, embed=embed)
        loaded = mblob.load_module(path)
        values = array.array("f", [1, 2, 3])
        loaded["twice"](values, len(values))
        if list(values) != [2, 4, 6] or bytes(loaded.imported_modules[0].payload) != b"payload":
            raise RuntimeError(f"the trial kernel gave {list(values)}, expected [2, 4, 6]")
    return "compiled, packed, loaded and called a kernel", ""


def registered_loaders() -> tuple[str, str]:
    """Type keys that modules can be loaded for, as the error about an unknown one lists them."""
    import mblob

    with DeferredSignals(), temporary_folder() as folder:
        path = folder / "unknown.so"
        module = mblob.csource_module(TRIAL_SOURCE)
        module.import_module(mblob.json_module("mblob.doctor.unknown", "x", '{"nodes": []}', []))
        mblob.export_library(module, path)
        try:
            mblob.load_module(path)
        except mblob.LoaderMissingError as error:
            return ", ".join(error.available) or "none", ""
    raise RuntimeError("a module of an unknown type key was loaded without an error")
