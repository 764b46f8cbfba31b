"""The C files that an installed package has: mblob.c and mblob-plugins.c."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

import mblob
from mblob.packager.link.carried_plugins import SHIPPED_OPTIONS, shipped_sources
from tests.e2e.programs import ROOT, run

# Of C: literals, numbers, words, and what operators are longer than a character.
TOKEN = re.compile(
    r"""
    "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | \.?[0-9](?:[eEpP][+-]|[\w.])* | \w+ | \.\.\. | <<= | >>= | -> | \+\+
    | -- | << | >> | [<>=!]= | && | \|\| | [-+*/%&^|]= | \S
    """,
    re.VERBOSE,
)


@pytest.mark.compiles
def test_mblob_c_is_the_amalgamation_without_comments(tmp_path: Path) -> None:
    whole = tmp_path / "mblob.c"
    whole.write_text(runpy.run_path(str(ROOT / "csrc" / "amalgamation.py"))["whole"]())
    words = ("cc", "-std=gnu11", "-E", "-P")
    installed = Path(mblob.get_amalgamation())
    found, wanted = (TOKEN.findall(run(*words, path).stdout) for path in (installed, whole))
    assert found == wanted and len(found) > 100_000
    assert installed.read_text().count("/*") == 2  # what it is, and a fall through


def test_spaces_stay_where_they_separate_words_and_in_directives() -> None:
    bare = runpy.run_path(str(ROOT / "csrc" / "installed_sources.py"))["without_comments"]
    text = """
#define F (x)
#define G(a, b) \\
  a + b
return - -a + +b, (char) c ? d : 'e' , " = " ;
case 1: /* fall through */
"""
    assert bare(text) == (
        "#define F (x)\n#define G(a, b) \\\na + b\nreturn - -a + +b,(char)c?d:'e' ,\" = \" ;\n"
        "case 1: /* fall through */\n"
    )


def test_comments_go_and_texts_that_look_like_them_stay() -> None:
    bare = runpy.run_path(str(ROOT / "csrc" / "installed_sources.py"))["without_comments"]
    text = """
/* gone "x" */ int a; // gone too
  const char *b = "/* kept */ // kept \\" /*", c = '"'; /* two
  lines */ int d;
"""
    assert bare(text) == ('int a;\nconst char *b="/* kept */ // kept \\" /*",c=\'"\';int d;\n')


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_each_file_of_a_plug_in_compiles_without_a_warning(
    require: Callable[[str], str], tmp_path: Path, compiler: str
) -> None:
    files = []
    for name in ("cuda", "dnnl", "ffi", "opencl"):
        for node in shipped_sources(name):
            files.append(tmp_path / f"{len(files)}.c")
            files[-1].write_text(node.text())
    assert len(files) > 80
    words = [*SHIPPED_OPTIONS, "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    run(require(compiler), *words, f"-I{mblob.get_library_dir()}", *files)
