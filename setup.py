"""Builds the compiled part: libmblob (the C runtime), the cffi module over it, the extension of the
hot path.

Nothing but a C compiler is needed. Metadata is in pyproject.toml.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "csrc"
PLUGINS = sorted(p.name for p in (CSRC / "plugins").iterdir() if p.is_dir() and p.name != "common")
PACKAGE = CSRC / "package"
INCLUDE = ["csrc/include", "csrc/include/mblob/compat", "csrc/src"]


def link_halves() -> None:
    """Make the links `mblob/packager` and `mblob/loader` where there are none: in a source archive,
    which holds each file once; in a zip; where git makes no links (then they are files of a few
    bytes)."""
    for name in ("packager", "loader"):
        link, there = ROOT / "mblob" / name, ROOT / name
        if (link / "__init__.py").is_file():
            continue
        if not (there / "__init__.py").is_file():
            raise SystemExit(
                f"mblob cannot be built: {there} is missing: the source tree is not complete"
            )
        try:
            if link.is_symlink() or link.is_file():
                link.unlink()
            link.symlink_to(Path("..") / name)
        except OSError as error:
            raise SystemExit(
                f"mblob cannot be built: {link} has to be a link to ../{name}: {error.strerror}"
            ) from None


link_halves()


def read_flags(path: Path) -> dict[str, list[str]]:
    """The variables of csrc/flags.mk, each as a list of words."""
    found = dict(re.findall(r"^(\w+) := (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE))
    return {
        name: value.replace("$(SONAME)", found["SONAME"]).split() for name, value in found.items()
    }


FLAGS = read_flags(CSRC / "flags.mk")
SONAME = FLAGS["SONAME"][0]
NEEDLESS = (".comment", ".llvm_addrsig")  # sections: the compiler's name, what only lld uses
C_FLAGS = [*FLAGS["COMPILE"], "-O2"]


def own_flags(source: Path) -> list[str]:
    """The flags that csrc/flags.mk has for a single file; the rule is that of csrc/Makefile."""
    name = (
        source.relative_to(CSRC / "src").as_posix() if source.is_relative_to(CSRC / "src") else None
    )
    small = name is not None and name not in FLAGS["FAST"]
    without_tables = ["-fno-asynchronous-unwind-tables"] if name in FLAGS["READERS"] else []
    return [*(FLAGS["SMALL"] if small else []), *without_tables]


def archiver() -> list[str]:
    """The command `ar`."""
    return shlex.split(os.environ.get("AR") or sysconfig.get_config_var("AR") or "ar")


def plugin_file(name: str) -> str:
    """The file name of the plug-in of a folder in csrc/plugins, made as csrc/Makefile does."""
    return f"libmblob-{name}.so"


# Where the files for C programs are seen from: a wheel and a checkout have the same steps between
# them, for `mblob/loader` in a checkout is a link to `loader` beside `csrc`.
PLACES = {
    ".pc": ("${pcfiledir}/../../..", "${pcfiledir}/..", "${prefix}/csrc/include"),
    ".cmake": ("", "${_mblob_here}/../..", "${_mblob_here}/../../../../csrc/include"),
}


def write_for_c(folder: Path) -> None:
    """Write the files by which C programs are built, beside libmblob: link names, files for pkg-config and CMake.

    A wheel cannot hold links: the link names are linker scripts.
    """
    header = (CSRC / "include" / "mblob.h").read_text(encoding="utf-8")
    (version,) = re.findall(r'^#define MBLOB_VERSION "(.*)"$', header, re.MULTILINE)
    for name in ("libmblob.so", "mblob/compat/libtvm_runtime.so"):
        link = folder / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.write_text(f"/* a linker script: the library is {SONAME} */\nINPUT({SONAME})\n")
    for source in sorted(PACKAGE.iterdir()):
        target = folder / ("pkgconfig" if source.stem.endswith(".pc") else "cmake/mblob")
        target.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        if source.suffix == ".in":
            prefix, libdir, includedir = PLACES[Path(source.stem).suffix]
            values = {
                "PREFIX": prefix,
                "LIBDIR": libdir,
                "INCLUDEDIR": includedir,
                "VERSION": version,
                "SONAME": SONAME,
                "RPATH": "-Wl,-rpath,${libdir} ",
                "LDLIBS": " ".join(FLAGS["LDLIBS"]),
            }
            for name, value in values.items():
                text = text.replace(f"@{name}@", value)
        (target / source.name.removesuffix(".in")).write_text(text, encoding="utf-8")


# Where the extensions that link libmblob find its folder.
LIBRARY_OF = {"mblob.loader._call": "_lib", "mblob.native._native": "../loader/_lib"}


# The one that has a part of it inside.
PROGRAMS = "mblob.native._programs"
PROGRAMS_LINK = [
    "-pthread",
    f"-Wl,--version-script={ROOT / 'mblob' / 'native' / 'programs.map'}",
    "-Wl,-z,nodelete",
]


def say(what: str) -> None:
    """Tell people what takes the time. pip keeps to itself what is printed here, so `make env` names
    the file that its own output goes to."""
    try:
        with Path(os.environ.get("MBLOB_SAYS") or os.devnull).open("a", encoding="utf-8") as file:
            file.write(f"make env: {what}\n")
    except OSError:  # an output that cannot be opened by a name, such as a socket
        pass


def replace(source: Path, target: Path) -> None:
    """Copy a file to a place where a process may have the old one mapped."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.new")
    shutil.copy2(source, fresh)
    fresh.replace(target)


class BuildExt(build_ext):
    """Builds libmblob into `loader/_lib` first; both extensions that use it link against that one
    copy.

    DT_RPATH, not DT_RUNPATH: another libmblob on LD_LIBRARY_PATH must not take its place.
    """

    def build_extensions(self) -> None:
        needs = runpy.run_path(str(ROOT / "prerequisites.py"))
        if lost := needs["missing"]():
            raise SystemExit(f"mblob cannot be built: {needs['sentence'](lost)}")
        folder = Path(self.get_ext_fullpath("mblob.loader._call")).parent / "_lib"
        folder.mkdir(parents=True, exist_ok=True)
        say("compiling libmblob")
        self._build_runtime(folder)
        say(f"compiling the plug-ins: {', '.join(PLUGINS)}")
        for name in PLUGINS:
            self._build_plugin(name, folder)
        self._build_static_ffi(folder)
        self._build_checks()
        write_for_c(folder)
        runpy.run_path(str(CSRC / "installed_sources.py"))["write"](folder)
        for extension in self.extensions:
            extension.extra_compile_args += self._debug_flags()
            if extension.name == PROGRAMS:
                extension.extra_link_args += [str(folder / "libmblob.a"), *PROGRAMS_LINK]
                extension.depends.append(str(folder / "libmblob.a"))
            place = LIBRARY_OF.get(extension.name)
            if place is None:
                continue
            extension.extra_link_args += [
                str(folder / SONAME),
                f"-Wl,--disable-new-dtags,-rpath,$ORIGIN/{place}",
                "-pthread",
            ]
            extension.depends.append(str(folder / SONAME))
        say("compiling the modules of Python")
        super().build_extensions()

    def copy_extensions_to_source(self) -> None:
        """For editable installs: the runtime and its plug-ins go beside the extensions."""
        super().copy_extensions_to_source()
        built = Path(self.build_lib) / "mblob"
        for place in ("loader/_lib", "packager/functions"):
            for source in (p for p in (built / place).rglob("*") if p.is_file()):
                replace(source, ROOT / "mblob" / source.relative_to(built))

    def _debug_flags(self) -> list[str]:
        """A wheel carries no debug information, though Python's own CFLAGS ask for it; a checkout
        does."""
        return [] if self.inplace or self.editable_mode else ["-g0"]

    def _compile(
        self, sources: list[Path], place: str = "", words: Sequence[str] = ()
    ) -> list[str]:
        """Objects of C files of the tree, in a folder `place` of the build's own."""

        def compile_one(source: Path) -> str:
            objects = self.compiler.compile(
                [str(source.relative_to(ROOT))],
                output_dir=str(Path(self.build_temp) / place),
                include_dirs=[*INCLUDE, "csrc/plugins/common"],
                extra_postargs=[*C_FLAGS, *own_flags(source), *words, *self._debug_flags()],
            )
            return str(objects[0])

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(compile_one, sources))

    def _link(self, objects: list[str], target: Path, options: list[str]) -> None:
        """A new file, not the old one overwritten: a process may have it mapped."""
        fresh = target.with_name(f"{target.name}.new")
        self.compiler.link_shared_object(
            objects, str(fresh), extra_postargs=[*options, *FLAGS["LDLIBS"]]
        )
        fresh.replace(target)

    def _build_runtime(self, folder: Path) -> None:
        src = CSRC / "src"
        sources = sorted(src.rglob("*.c"))
        objects = dict(zip(sources, self._compile(sources)))
        core = {src / p for p in FLAGS["CORE_TABLE"]}
        whole = [objects[p] for p in sources if p not in core]
        exports = f"-Wl,--version-script={CSRC / 'libmblob.map'}"
        self._link(whole, folder / SONAME, [*FLAGS["LINK"], exports])
        self._archive(whole, folder / "libmblob.a")
        # in front of libmblob.a, it makes that libmblob-core.a: mblobConfig.cmake
        (table,) = (objects[p] for p in core)
        replace(Path(table), folder / "mblob-core.o")

    def _archive(self, members: Sequence[str], target: Path) -> None:
        target.unlink(missing_ok=True)
        # q, not r: two sources in different folders may have one name
        subprocess.run([*archiver(), "qcs", str(target), *members], check=True)
        if not (self.inplace or self.editable_mode):
            command = shlex.split(os.environ.get("STRIP") or "strip")
            sections = [f"--remove-section={name}" for name in NEEDLESS]
            subprocess.run([*command, "--strip-unneeded", *sections, str(target)], check=True)

    def _build_static_ffi(self, folder: Path) -> None:
        """`libmblob-ffi.a`: one object, as csrc/Makefile makes it."""
        own = [
            p for part in ("common", "ffi") for p in sorted((CSRC / "plugins" / part).rglob("*.c"))
        ]
        option, header = FLAGS["STATIC_NAMES"]
        objects = self._compile(own, "static", [option, str(CSRC / header)])
        whole = str(Path(self.build_temp) / "static" / "mblob-ffi.o")
        self.spawn([*self.compiler.compiler_so, "-r", "-nostdlib", *objects, "-o", whole])
        self._archive([whole], folder / "libmblob-ffi.a")

    def _build_checks(self) -> None:
        """The objects of packager/functions/checks.py, beside it."""
        sys.path.insert(0, str(ROOT))
        from mblob.packager.functions import checks

        folder = Path(self.get_ext_fullpath("mblob.packager.functions.checks")).parent
        folder.mkdir(parents=True, exist_ok=True)
        for dialect in checks.DIALECTS:
            path = folder / checks.object_path(dialect).name
            source = Path(self.build_temp) / f"{path.stem}.c"
            source.write_text(checks.source_of_object(dialect), encoding="utf-8")
            self.spawn(
                [*self.compiler.compiler_so, *checks.OBJECT_OPTIONS, *(f"-I{folder}" for folder in INCLUDE),
                 "-c", str(source), "-o", f"{path}.new"]
            )  # fmt: skip
            Path(f"{path}.new").replace(path)

    def _build_plugin(self, name: str, folder: Path) -> None:
        own = [
            p for part in ("common", name) for p in sorted((CSRC / "plugins" / part).rglob("*.c"))
        ]
        shared = [CSRC / "src" / p for p in FLAGS["PLUGIN_SHARED"]]
        self._link(
            self._compile([*own, *shared]),
            folder / plugin_file(name),
            [
                *FLAGS["PLUGIN_LINK"],
                f"-Wl,-soname,{plugin_file(name)}",
                f"-Wl,--version-script={CSRC / 'plugins' / 'plugin.map'}",
                "-lm",
            ],
        )


class BuildPy(build_py):
    """Ships the C headers inside the wheel; an editable install finds them in the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "mblob" / "csrc" / "include"
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(CSRC / "include", target)


setup(
    ext_modules=[
        Extension(
            "mblob.loader._call",
            sorted(str(p.relative_to(ROOT)) for p in (ROOT / "loader" / "_call").glob("*.c")),
            include_dirs=INCLUDE,
            depends=[
                "loader/_call/call.h",
                "csrc/include/mblob.h",
                "csrc/src/base/texts.h",
                "csrc/src/base/argument_types.h",
                "csrc/src/base/device_types.h",
            ],
            extra_compile_args=C_FLAGS,
            extra_link_args=FLAGS["LDLIBS"],
        ),
        Extension(
            "mblob.bytes._copy",
            ["mblob/bytes/_copy.c"],
            include_dirs=["csrc/src"],
            depends=[
                *("mblob/bytes/_copy_loop.h", "mblob/bytes/_crc32_wide.h"),
                *("csrc/src/base/crc32.c", "csrc/src/base/bytes.h"),
            ],
            extra_compile_args=C_FLAGS,
            extra_link_args=["-pthread"],
        ),
    ],
    cffi_modules=[
        "mblob/native/_native_build.py:ffibuilder",
        "mblob/native/_native_build.py:programs",
    ],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    long_description=runpy.run_path(str(ROOT / "release.py"))["description"](),
    long_description_content_type="text/markdown",
)
