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
    ".CPP": "cpp",
    ".cu": "cu",
    # Fortran in fixed and in free form; with a capital letter it is preprocessed.
    **dict.fromkeys((".f", ".for", ".ftn"), "f"),
    **dict.fromkeys((".F", ".FOR", ".FTN", ".fpp", ".FPP"), "F"),
    **dict.fromkeys((".f90", ".f95", ".f03", ".f08"), "f90"),
    **dict.fromkeys((".F90", ".F95", ".F03", ".F08"), "F90"),
}
LANGUAGE_OF = {
    "c": "c",
    "cc": "c++",
    "cpp": "c++",
    "cu": "cuda",
    **dict.fromkeys(("f", "F", "f90", "F90"), "fortran"),
}
# How messages call the languages; those of C share headers, macros and what pycparser reads.
SHOWN = {"c": "C", "c++": "C++", "cuda": "CUDA", "fortran": "Fortran"}
OF_C = ("c", "c++")

# Sources that mblob does not compile.
ASSEMBLER = (".s", ".S", ".asm")
DEVICE = (".cl", ".hip", ".metal", ".wgsl", ".ptx")

SOURCES = (*FORMAT_OF, ".h", ".hpp", ".ll", *ASSEMBLER, *DEVICE)

WEIGHTS = (".safetensors", ".npz", ".npy")  # of files with tensors
