# ruff: noqa: E501 (one line a text of the sources)
"""Measures how many defects the tests find: forty defects, planted one at a time, and who finds
each.

    python tests/planted_defects.py --tree FOLDER [--tier 'make test'] [--only NUMBER ...] [--report FILE]

FOLDER is a clone with its own `.venv` (make env), which this program changes and puts back. For
each defect it runs the tests that are closest to it, and where those pass the whole tier; a defect
that no test of the tier finds is "missed". `--check` only says whether each defect still fits the
sources: a test does that.

The list was written before the tests were made faster, and is not fitted to them: a defect that its
tier misses stays, and the tier gets a test.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


# Seconds of a run of the closest tests, and of the tier; a run that has not ended then hangs.
LONGEST, LONGEST_TIER = 900, 3600
NOT_ASKED = "test_the_defects_to_plant_fit_the_sources"  # it finds each of them


class Defect(NamedTuple):
    """A change that breaks one thing.

    Attributes:
        file: below the tree.
        old, new: text that is there once, and what takes its place.
        what: what is wrong then.
        near: files and folders of tests that are asked first.
    """

    file: str
    old: str
    new: str
    what: str
    near: tuple[str, ...]


DEFECTS = (
    # -- mblob: the format, looking ----------------------------------------------------------------
    Defect("mblob/format/index.py", "if size > room or offset > room - size:", "if size > room or offset > room:",
           "a name of the index may end behind the names", ("tests/unit/test_vectors.py", "tests/unit")),
    Defect("mblob/format/index.py", "        if e.offset < at:\n", "        if e.offset < 0:\n",
           "payloads that overlap are accepted", ("tests/unit/test_vectors.py", "tests/unit")),
    Defect("mblob/format/classic.py", "if size > len(data) - 8:", "if size > len(data):",
           "a blob may say up to 8 bytes more than there are", ("tests/unit/test_vectors.py", "tests/unit")),
    Defect("mblob/binary/tar.py", "if total > limit:", "if total > limit << 40:",
           "a gzip bomb is unpacked", ("tests/looking/test_containers.py", "tests/looking")),
    Defect("mblob/format/npy.py", "item = max(dtype.bits // 8, 1)", "item = dtype.bits // 8",
           "an array of bool in a .npy file has no bytes", ("tests/packager/edit/test_swap.py", "tests/cli", "tests/packager")),
    Defect("mblob/format/safetensors.py", "bits = 8 if dtype.bits == 1 else dtype.bits", "bits = dtype.bits",
           "a bool of safetensors takes a bit", ("tests/loader/test_weights.py", "tests/packager/test_payload_modules.py")),
    Defect("mblob/inspect/verification.py", "        compared=compared and algorithm is not None,\n", "        compared=algorithm is not None,\n",
           "verify --level header says that a large payload matches", ("tests/looking", "tests/cli")),
    Defect("mblob/inspect/elf_judge.py", "        if not android and check_elf(image.data):\n", "        if not android:\n",
           "verify accepts tables that the dynamic linker does not survive", ("tests/looking/test_linking_tables.py",)),
    Defect("mblob/format/blob_plan.py", "return -(at + e.align_at) % e.alignment", "return -at % e.alignment",
           "the header of a small weights file is aligned in place of its data",
           ("tests/packager/test_payload_modules.py", "tests/loader/test_weights.py", "tests/packager")),
    Defect("mblob/bytes/mapping.py", "os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC", "os.O_RDONLY | os.O_CLOEXEC",
           "opening a FIFO waits for ever", ("tests/unit/test_elf.py",)),
    Defect("mblob/cli/arrays.py", "if len(found.files) != 1:", "if len(found.files) < 1:",
           "run takes the first array of an .npz file that has several", ("tests/cli",)),
    Defect("mblob/inspect/library_search.py", "folders = [] if importer.runpath else list(importer.rpath)",
           "folders = list(importer.rpath)",
           "DT_RPATH counts beside DT_RUNPATH", ("tests/unit/test_linkage.py", "tests/looking")),
    Defect("mblob/inspect/html/data.py", '"left_out": max(len(rows) - limit, 0)', '"left_out": len(rows)',
           "the page says that rows are left out", ("tests/html/test_page.py",)),
    Defect("mblob/bytes/_copy_loop.h", "while (p->filled == i && !p->ended)", "if (p->filled == i && !p->ended)",
           "the writing thread does not look again when it is woken", ("tests/unit/test_native_copy.py", "tests/e2e/test_c_runtime.py")),
    # -- packager ----------------------------------------------------------------------------------
    Defect("packager/write/elf_writer.py", "else 0xFFFFFFFF - start", "else 0xFFFFFFFF",
           "an object for 32 bits may be too large for its own numbers", ("tests/packager/functions/test_object_files.py",)),
    Defect("packager/write/elf_writer.py", '(".note.GNU-stack", SHT_PROGBITS, 0, self', '(".note.GNU-stack", SHT_PROGBITS, 4, self',
           "whoever links a blob gets a stack that can be executed", ("tests/packager/functions/test_object_files.py",)),
    Defect("packager/objects/rename.py", "st_other=s.st_other & ~3 | STV_HIDDEN", "st_other=s.st_other & ~3",
           "renamed definitions stay visible", ("tests/packager/functions/test_packed_forms.py", "tests/packager/functions/test_object_files.py")),
    Defect("packager/objects/archive_writer.py", "if len(text) <= 16:", "if len(text) <= 17:",
           "the name of a member of an archive flows into the next field",
           ("tests/packager/test_system_lib.py", "tests/unit/test_archive.py", "tests/packager")),
    Defect("packager/objects/archive_writer.py", "at += HEADER_SIZE + length + (length & 1)", "at += HEADER_SIZE + length",
           "the index of an archive is off behind a member of odd size", ("tests/packager/test_system_lib.py", "tests/unit/test_archive.py", "tests/packager")),
    Defect("packager/modules/prototype_parser.py", "<= value < 2**63 else None", "<= value < 2**64 else None",
           "a dimension above 2^63 is accepted", ("tests/packager/functions/test_prototypes.py",)),
    Defect("packager/edit/swap.py", "            if entry.index in new:\n", "            if entry.index in ():\n",
           "swap takes the last of two payloads for one entry", ("tests/packager/edit/test_swap.py", "tests/cli")),
    Defect("packager/byoc/storage.py", "            mine.kept |= node.is_input\n", "",
           "the memory of an input is written by others", ("tests/packager/byoc/test_byoc.py", "tests/packager/byoc/test_byoc_graph.py", "tests/packager")),
    Defect("packager/byoc/merge.py", "        if needed is None:\n            return False\n", "        needed = needed or []\n",
           "regions are joined across a node between them", ("tests/packager/byoc/test_byoc.py", "tests/packager")),
    Defect("packager/functions/checks.h", "largest > 0 && size > largest && size - size == 0", "largest > 0 && size >= largest && size - size == 0",
           "the largest float is refused", ("tests/packager/functions/test_packed_forms.py",)),
    Defect("packager/functions/checks.h", "if (t->shape[d] == 1) continue;", "if (t->shape[d] == 0) continue;",
           "an odd stride of a dimension of one element is refused", ("tests/packager/functions/test_packed_forms.py",)),
    Defect("packager/compile/vector_c/operations.py", 'made = t.as_mask() if op == "!" else t', "made = t",
           "! of a vector is no mask", ("tests/vector_c",)),
    # -- loader ------------------------------------------------------------------------------------
    Defect("loader/tensor.py", "if other.shape != self.shape:", "if other.numel() != self.numel():",
           "copyfrom takes another shape", ("tests/loader/calls/test_tensor.py",)),
    Defect("loader/vm_common.py", "-(2**31) <= value < 2**31", "-(2**31) <= value <= 2**31",
           "2^31 becomes a negative int32 input", ("tests/loader/executors/test_vm_face.py",)),
    Defect("loader/_call/dlpack.c", "out->readonly = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;", "out->readonly = false;",
           "kernels write to read-only arrays", ("tests/loader/calls/test_read_only.py", "tests/loader/calls/test_tensor.py", "tests/loader")),
    Defect("loader/_call/bound.c", "if (self->has_tensors && !check_tensors(self)) return NULL;", "",
           "a bound call uses a tensor that a callback kept", ("tests/loader/calls/test_bind.py", "tests/loader/calls/test_callbacks.py")),
    # -- csrc --------------------------------------------------------------------------------------
    Defect("csrc/src/format/index.c", "if (size > l->strings_size || offset > l->strings_size - size)",
           "if (size > l->strings_size || offset > l->strings_size)",
           "a name of the index may end behind the names", ("tests/e2e/test_c_runtime.py",)),
    Defect("csrc/src/base/bytes.c", "if (*out > mb_left(c) / item_size) {", "if (*out * item_size > mb_left(c)) {",
           "a count is multiplied before it is bounded", ("tests/e2e/test_c_runtime.py",)),
    Defect("csrc/src/exec/graph/schedule.c", "    status = add_edge(b, b->reads[i].step, step);\n", "    (void)b->reads[i].step;\n",
           "a node writes memory that another one still reads", ("tests/e2e/test_c_runtime.py",)),
    Defect("csrc/src/exec/graph/memory.c", "  if (is_counted) mb_array_retain(value);\n", "",
           "the executor keeps an array without a reference", ("tests/e2e/test_c_runtime.py", "tests/loader/executors/test_graph_executor.py")),
    Defect("csrc/src/base/error.c", "static void free_thread_error(void *s) { free_texts(s); }", "static void free_thread_error(void *s) { (void)s; }",
           "the error of a thread that ends is lost memory", ("tests/e2e/test_c_runtime.py",)),
    Defect("csrc/src/core/library/loaders.c", "mb_wake(&library->opened);", "(void)library->opened;",
           "of several threads that wait for a loader one goes on", ("tests/loader/test_threads.py", "tests/e2e/test_c_runtime.py")),
    Defect("csrc/src/exec/relay/reader.c", "return host < count ||", "return host <= count ||",
           "the index of the host device may be one too large",
           ("tests/loader/executors/test_vm_lies.py", "tests/loader/executors/test_vm_executable.py", "tests/e2e/test_c_runtime.py")),
    Defect("csrc/src/exec/aot/executor.c", "if (!pass && end > total) total = end;", "if (!pass) total = end;",
           "the pool of constants is as large as the last one says", ("tests/e2e/test_c_runtime.py", "tests/loader/executors/test_aot_executor.py")),
    Defect("csrc/plugins/opencl/cl_launch.c", "if (block > d->max_items[i])", "if (block >= d->max_items[i])",
           "a group of the largest size is refused", ("tests/e2e/test_c_runtime.py", "tests/loader/opencl/test_opencl.py")),
    Defect("csrc/plugins/ffi/calls.c", "    host->value_release(ret, ret_code);\n  }\n  while (made-- > 0) mb_place_release",
           "  }\n  while (made-- > 0) mb_place_release",
           "what a function returned to the ffi dialect is lost memory", ("tests/loader/calls/test_ffi_values.py",)),
    Defect("csrc/include/mblob/compat/tvm/runtime/ndarray.h", "if (relative_byte_offset > have || want > have - relative_byte_offset)",
           "if (relative_byte_offset > have || want > have)",
           "a view of a C++ host ends behind its array", ("tests/e2e/test_cxx_face.py", "tests/e2e/test_c_runtime.py")),
)  # fmt: skip


def problems(tree: Path) -> list[str]:
    """Defects that do not fit the sources any more."""
    found = []
    for i, d in enumerate(DEFECTS, 1):
        count = (tree / d.file).read_text().count(d.old)
        if count != 1:
            found.append(f"{i}: {d.file} has {count} of {d.old!r}, expected 1")
    return found


def run_tests(tree: Path, words: list[str], longest: int) -> tuple[bool, str]:
    """True if tests pass; and the first that does not."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=tree, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as tests:
        try:
            out, err = tests.communicate(timeout=longest)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            return False, f"no end after {longest} s"
    failed = [line for line in out.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if tests.returncode not in (0, 1, 2):  # all pass; some fail; some cannot be collected
        raise SystemExit(f"pytest ended with {tests.returncode}: {out[-300:]}{err[-300:]}")
    return tests.returncode == 0, failed[0] if failed else out[-300:] + err[-300:]


def ask(tree: Path, d: Defect, tier: list[str]) -> dict[str, object]:
    """Plant a defect, build, look who finds it, and put the source back; the next build is without
    it."""
    source = tree / d.file
    good = source.read_text()
    started = time.monotonic()
    python = str(tree / ".venv" / "bin" / "python")
    row: dict[str, object] = {"file": d.file, "what": d.what}
    try:
        source.write_text(good.replace(d.old, d.new))
        if subprocess.run(["make", "env"], cwd=tree, capture_output=True).returncode:
            return {**row, "found": True, "by": "the build"}
        near = [p for p in d.near if (tree / p).exists()]
        words = [
            python,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            *tier[1:],
            "-k",
            f"not {NOT_ASKED}",
        ]
        passed, by = run_tests(tree, [*words, *near], LONGEST)
        if passed:
            passed, by = run_tests(tree, words, LONGEST_TIER)
        return {
            **row,
            "found": not passed,
            "by": "" if passed else by,
            "seconds": round(time.monotonic() - started),
        }
    finally:
        source.write_text(good)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--tree", type=Path, help="a clone with a .venv, which is changed and put back"
    )
    parser.add_argument(
        "--tier", default="test", help="words for pytest that choose the tier, behind its name"
    )
    parser.add_argument("--only", type=int, nargs="*", help="numbers of defects, counted from 1")
    parser.add_argument("--report", type=Path, help="a file that gets a line of JSON for each")
    parser.add_argument(
        "--check", action="store_true", help="only say whether each defect fits the sources"
    )
    args = parser.parse_args()
    if args.check or args.tree is None:
        for line in problems(args.tree or ROOT):
            print(line)
        return bool(problems(args.tree or ROOT))
    missed = 0
    for i, d in enumerate(DEFECTS, 1):
        if args.only and i not in args.only:
            continue
        row = {"number": i, **ask(args.tree, d, args.tier.split())}
        missed += not row["found"]
        print(
            f"{i:2} {'found' if row['found'] else 'MISSED'} {d.file}: {d.what}: {row['by']}",
            flush=True,
        )
        if args.report:
            with args.report.open("a") as file:
                file.write(json.dumps(row) + "\n")
    subprocess.run(["make", "env"], cwd=args.tree, capture_output=True, check=True)
    print(f"{missed} missed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
