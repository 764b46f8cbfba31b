"""The table of docs/peers.md, how many cases of the peers' own tests hold; and the lists of the others, with reasons.

`python -m tests.peers.table` writes them between their two marks in the page.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.peers import test_tvm_0_14, test_tvm_cpp, test_tvm_ffi, test_tvm_relax, test_tvm_today
from tests.peers.cases import Case

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "peers.md"
WIDTH = 120
BEGIN, END = "<!-- peers: begin -->\n", "<!-- peers: end -->\n"


def suites() -> dict[str, list[Case]]:
    """The cases of each suite."""
    return {
        "TVM 0.27: codegen, intrinsics, numbers and tensor expressions": test_tvm_today.COMPILED,
        "TVM 0.27: `test_runtime_nd_array`": test_tvm_today.ARRAYS,
        "TVM 0.27: other files of runtime and contrib": test_tvm_today.RUNTIME,
        "TVM 0.27: `test_vm_build`, `test_vm_codegen_only`, `test_vm_callback_function`": test_tvm_relax.CASES,
        "TVM 0.14: runtime, from Python": test_tvm_0_14.CASES,
        "TVM 0.14: runtime, from C++": [
            Case(name, unsaid=why) for name, why in test_tvm_cpp.rows()
        ],
        "tvm_ffi 0.1.9, from Python": test_tvm_ffi.CASES,
    }


def block() -> str:
    return BEGIN + "\n" + "\n".join(lines()) + "\n\n" + END


def lines() -> Iterator[str]:
    yield "| tests of | cases | hold | do not hold | not rewritten |"
    yield "|---|---|---|---|---|"
    for suite, cases in suites().items():
        differs, unsaid = (
            sum(bool(x) for x in row) for row in zip(*((c.differs, c.unsaid) for c in cases))
        )
        yield f"| {suite} | {len(cases)} | {len(cases) - differs - unsaid} | {differs} | {unsaid} |"
    for title, attribute in (("do not hold", "differs"), ("are not rewritten", "unsaid")):
        yield ""
        yield f"These cases {title}:"
        yield ""
        reasons: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for suite, cases in suites().items():
            for case in cases:
                if reason := getattr(case, attribute):
                    reasons[suite.partition(":")[0].partition(",")[0], reason].append(case.name)
        for (peer, reason), named in reasons.items():
            yield _wrapped(f"* **{peer}**: {reason}")
            yield from map(_wrapped, _listed(named))


def _wrapped(line: str) -> str:
    """An item of a list, in lines that an editor shows."""
    indent = " " * (line.index("*") + 2)
    return textwrap.fill(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _listed(named: list[str]) -> Iterator[str]:
    """Names of cases, an item for each file; of many of one file the first three and their number."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in named:
        file, _, test = name.rpartition(".")
        found[file].append(test)
    for file, tests in found.items():
        more = f" and {len(tests) - 3} more" if len(tests) > 4 else ""
        shown = tests[:3] if more else tests
        yield f"  * `{file}`: {', '.join(f'`{t}`' for t in shown)}{more}"


def main() -> None:
    """Write the block into the page."""
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(head + block() + rest.partition(END)[2])


if __name__ == "__main__":
    main()
