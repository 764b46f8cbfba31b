"""Programs that were compiled with mblob 0.1.0 run with this libmblob."""

from __future__ import annotations

import re
import shutil
import struct
import sys
from pathlib import Path

import pytest

from tests.c import abi

RECORDED = Path(__file__).with_name("abi_0_1_0.txt")
REMEDY = "put the old back, or raise MBLOB_ABI_VERSION and the SONAME (docs/compatibility.md)"

pytestmark = pytest.mark.skipif(
    struct.calcsize("P") != 8 or sys.byteorder != "little", reason="no GPU and no 64-bit machine"
)


@pytest.fixture(scope="module")
def old() -> dict[str, str]:
    return abi.read(RECORDED)


def test_the_interface_of_0_1_0_is_still_there(old: dict[str, str], installed: Path) -> None:
    broken = abi.breaks(old, abi.described(installed / "lib" / "libmblob.so"))
    assert not broken, f"a program compiled with mblob 0.1.0 breaks: {'; '.join(broken)}: {REMEDY}"


def test_the_record_has_what_programs_rely_on(old: dict[str, str]) -> None:
    assert (
        old["function mblob_open"]
        == "int (const char *, const mblob_open_options *, mblob_module **)"
    )
    assert old["symbol mblob_open"] == "MBLOB_0.1"
    assert old["member mblob_open_options.struct_size"] == "at 0, 4 bytes, uint32_t"
    assert old["macro MBLOB_ABI_VERSION"] == "1"
    assert {"symbol TVMFuncCall", "struct DLTensor", "enumerator MBLOB_E_ARGUMENT"} <= old.keys()
    assert "symbol mblob_open_file" not in old  # of libmblob's other layers


# The header, what is replaced, by what, and the break ("": none).
CHANGES = {
    "a function goes": (
        "mblob.h",
        r"MBLOB_API uint32_t mblob_abi_version\(void\);",
        "",
        "function mblob_abi_version: removed",
    ),
    "a parameter changes": (
        "mblob.h",
        r"(mblob_status_name\()int",
        r"\1long",
        "function mblob_status_name: const char *(int), now const char *(long)",
    ),
    "an enumerator moves": (
        "mblob.h",
        r"MBLOB_INPUTS = 0",
        "MBLOB_INPUTS = 2",
        "enumerator MBLOB_INPUTS: 0, now 2",
    ),
    "a member is put in front": (
        "mblob.h",
        r"(typedef struct mblob_allocator \{)",
        r"\1 void *first;",
        "member mblob_allocator.struct_size: at 0, 4 bytes, uint32_t, now at 8, 4 bytes, uint32_t",
    ),
    "a structure without struct_size grows": (
        "mblob/dlpack.h",
        r"\} DLDevice;",
        "int32_t more; } DLDevice;",
        "struct DLDevice: 8, now 12",
    ),
    "a structure with struct_size grows": (
        "mblob.h",
        r"\} mblob_allocator;",
        "void *more; } mblob_allocator;",
        "",
    ),
    "a function is added": (
        "mblob.h",
        r"(MBLOB_API uint32_t mblob_abi_version)",
        r"MBLOB_API void mblob_added(void); \1",
        "",
    ),
    "a parameter gets another name": (
        "mblob.h",
        r"mblob_status_name\(int status\)",
        "mblob_status_name(int number)",
        "",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_breaks_programs_is_told(
    old: dict[str, str], installed: Path, tmp_path: Path, change: str
) -> None:
    header, pattern, text, broken = CHANGES[change]
    include = Path(shutil.copytree(abi.INCLUDE, tmp_path / "include"))
    changed, count = re.subn(pattern, text, (include / header).read_text())
    assert count == 1
    (include / header).write_text(changed)
    found = abi.breaks(old, abi.described(installed / "lib" / "libmblob.so", include))
    assert broken in found if broken else found == []
