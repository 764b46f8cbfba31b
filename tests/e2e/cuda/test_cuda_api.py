"""The plug-in's own declarations of CUDA's driver API against NVIDIA's header, where a toolkit is
installed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

DRIVER = Path(__file__).resolve().parents[3] / "csrc/plugins/cuda/driver.h"
HEADERS = [Path("/usr/local/cuda/include/cuda.h"), Path("/usr/include/cuda.h")]


@pytest.fixture(scope="module")
def include() -> Path:
    found = next((h.parent for h in HEADERS if h.exists()), None)
    if found is None:
        pytest.skip(
            "no GPU toolkit: no cuda.h; install a CUDA toolkit to check the declarations of its API"
        )
    return found


def test_names_and_numbers_are_those_of_the_header(include: Path, tmp_path: Path) -> None:
    text = DRIVER.read_text()
    numbers = dict(re.findall(r"\b(CU(?:DA)?_\w+) = (\d+)", text))
    symbols = re.findall(r'F\(\w+, "(\w+)"', text)
    assert len(numbers) > 30
    assert len(symbols) > 30
    lines = ["#include <cuda.h>", "#define TEXT(x) #x", "#define NAME(x) TEXT(x)"]
    lines += [f'_Static_assert({name} == {value}, "{name}");' for name, value in numbers.items()]
    # what the header's macro makes of the plain name is the symbol to look up
    for symbol in symbols:
        plain = re.sub(r"_v\d+$", "", symbol)
        lines.append(
            f'_Static_assert(__builtin_strcmp(NAME({plain}), "{symbol}") == 0, "{symbol} is not what cuda.h means");'
        )
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines) + "\n")
    made = subprocess.run(
        ["cc", "-std=gnu11", f"-I{include}", "-fsyntax-only", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
