"""Suffixes of sources, and the language of each. Whatever asks whether a file is a source asks here."""

from __future__ import annotations

# What mblob compiles: the format of `csource_module` that a suffix says, and the language of a format.
FORMAT_OF = {
    ".c": "c",
    ".cc": "cc",
    ".cxx": "cc",
    ".c++": "cc",
    ".C": "cc",
    ".cpp": "cpp",
    ".cu": "cu",
}
LANGUAGE_OF = {"c": "c", "cc": "c++", "cpp": "c++", "cu": "cuda"}

# Sources that mblob does not compile.
ASSEMBLER = (".s", ".S", ".asm")
FORTRAN = (".f", ".for", ".ftn", ".f77", ".fpp", ".f90", ".f95", ".f03", ".f08")
DEVICE = (".cl", ".hip", ".metal", ".wgsl", ".ptx")

SOURCES = (*FORMAT_OF, ".h", ".hpp", ".ll", *ASSEMBLER, *FORTRAN, *DEVICE)
