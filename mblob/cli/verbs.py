"""The verbs of `mblob-pack`, and what `--help` says of each."""

from __future__ import annotations

# Each is a module of this folder, of the same name with _ for -. Each one's example takes what
# those before it made.
VERBS = {
    "build": "pack kernels, objects, blobs and weights into one library",
    "standalone": "pack a model with the runtime that it needs into one library, with a C interface",
    "import": "compile a model of ONNX to a library that runs without ONNX and TVM",
    "inspect": "show what is in a library, without running it",
    "verify": "check a library for damage and for undefined symbols, without running it",
    "extract": "write payloads or tensors of a library to files, without running it",
    "add": "add weights, files and code to a finished library",
    "swap": "replace payloads or weights, without linking",
    "diff": "show the differences between two libraries, without running them",
    "convert": "convert a library of one dialect to the other",
    "strip-index": "remove the index and the digests from a library, so that it has the bytes that TVM writes",
    "add-index": "add an index to a library that TVM exported, with the size and digest of each payload",
    "run": "call a function of a library, or run the model in it",
    "doctor": "show what this machine can build, link, load and run",
    "completion": "print the completion script of a shell, for mblob-pack",
}
COMPILING = ("build", "standalone", "add")  # verbs with options of the compiler behind --
