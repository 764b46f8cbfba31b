"""The README does what it says: every command and every program in it is run, in the order of the
page."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import mblob
from mblob.cli.main import main
from tests.docs.test_one_package import check_program
from tests.packager.edit.test_add_params import graph, run_graph

DEMO = re.compile(
    r"^digits: python (\d+\.\d) % \((\d+)/360\), C (\d+\.\d) % \((\d+)/360\), same answers$",
    re.MULTILINE,
)


def environment(home: Path) -> dict[str, str]:
    """That of a newcomer: nothing of this test run's own environment but the PATH."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@pytest.fixture(scope="module")
def output(blocks, root: Path, installed: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the README's commands print.

    Blocks marked `clone` run in the repository, the others in a new folder that holds the files
    shown so far.
    """
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("readme")
    script = ["set -eu"]
    for block in blocks(root / "README.md"):
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.language == "sh":
            place = root if block.info == "clone" else folder
            script += [f"cd '{place}'", block.text]
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_make_demo_classifies_the_held_back_images_in_both_languages(output: str) -> None:
    found = DEMO.search(output)
    assert found, output
    percent_python, right_python, percent_c, right_c = found.groups()
    assert (percent_python, right_python) == (percent_c, right_c)
    assert int(right_python) >= 0.97 * 360
    assert percent_python == f"{100 * int(right_python) / 360:.1f}"


def test_the_model_of_the_demo_runs(output: str) -> None:
    assert "digit: [9]" in output


def test_python_calls_the_kernel_and_reads_the_config(output: str) -> None:
    assert """[ 8. 26.] b'{"labels": ["cat", "dog"]}'\n""" in output


def test_c_calls_the_kernel_with_old_and_new_weights(output: str) -> None:
    assert '\n8 26 {"labels": ["cat", "dog"]}\n6 6 {"labels": ["cat", "dog"]}\n' in output


def test_it_is_short_and_names_what_a_newcomer_runs(root: Path) -> None:
    lines = (root / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    text = "\n".join(lines)
    for word in ("make demo", "make test", "mblob_module_tensor", "mblob.swap", "apt-get install"):
        assert word in text


def test_a_newcomer_adds_to_a_model_by_command_and_by_python(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (root / "README.md").read_text()
    shell, python = (
        re.findall(f"`({start}[^`]*)`", text) for start in ("mblob-pack add", r"mblob\.add\(")
    )
    monkeypatch.chdir(tmp_path)
    graph(Path("model.so"))
    Path("pre.c").write_text("int pre(int x) { return x + 1; }")
    Path("l.json").write_text("[]")
    np.savez("p.npz", w=np.ones(4, "int32"))
    np.savez("w.npz", u=np.ones(2, "float32"))
    (by_hand,) = re.findall(r"`(lib = [^`]*)`", text)
    runs = [
        lambda: main(shlex.split(shell[0])[1:]),
        lambda: eval(python[0]),
        lambda: exec(by_hand, {"mblob": mblob}),
    ]
    for run in runs:
        run()
        lib = mblob.load_module("a.so")
        assert lib.pre(2) == 3
        if run is not runs[-1]:  # which adds code alone
            assert bytes(lib.payloads["labels"]) == b"[]" and lib.tensors["u"].shape == (2,)
            assert run_graph(Path("a.so"), x=np.zeros(4), v=np.zeros(4)) == [1, 1, 1, 1]
        Path("a.so").unlink()
    assert len(shell) == len(python) == 1


def test_each_file_of_the_example_is_named_where_a_rendered_page_shows_it(
    blocks, root: Path
) -> None:
    page = root / "README.md"
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    files = [block.file for block in blocks(page) if block.file]
    assert files == ["predict.c", "predict.py", "predict_host.c"]
    assert [file for file in files if f"`{file}`" not in prose] == []


def test_every_link_leads_to_a_file(root: Path) -> None:
    for page in (root / "README.md", root / "CONTRIBUTING.md", root / "examples" / "README.md"):
        prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        prose = re.sub(r"`[^`\n]*`", "", prose)
        for target in re.findall(r"\]\(([^)#]+)\)", prose):
            assert "://" in target or (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.slow
def test_pip_install_gives_a_working_command_outside_the_clone(
    blocks, root: Path, tmp_path: Path
) -> None:
    (command,) = [b.text for b in blocks(root / "docs" / "install.md") if b.info == "wheel"]
    ignored = shutil.ignore_patterns(
        ".git", ".venv", "build", "_lib", "*.so", "__pycache__", "*.egg-info", ".*_cache"
    )
    shutil.copytree(root, tmp_path / "clone", ignore=ignored)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    script = f". '{tmp_path}/venv/bin/activate'\ncd '{tmp_path}/clone'\n{command}\ncd /\nmblob-pack doctor"
    done = subprocess.run(
        ["sh", "-euc", script],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert str(tmp_path / "venv") in done.stdout
    assert "this machine can build, load and run" in done.stdout
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))  # numpy and others of ours
    program = tmp_path / "program"
    program.mkdir()
    check_program(program, root, tmp_path / "venv" / "bin" / "python")
