"""The parts of mblob that a frozen program needs, and PyInstaller cannot see: modules that are imported by their
names, files that are read, libmblob and its plug-ins."""

from __future__ import annotations

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

from mblob.installed import library_dir

hiddenimports = collect_submodules(
    "mblob", filter=lambda name: not name.startswith("mblob.pyinstaller")
)
# Headers, with which the packager compiles; not libmblob.a: programs that are frozen link nothing statically.
datas = [
    (source, target)
    for source, target in collect_data_files("mblob", excludes=["csrc/src", "csrc/plugins"])
    if not source.endswith((".a", ".o", ".so", ".so.0"))
]
binaries = [
    (str(path), "mblob/loader/_lib")
    for path in sorted(library_dir().glob("libmblob*.so*"))
    if not path.is_symlink()
]
