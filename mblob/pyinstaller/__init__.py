"""The hook of PyInstaller: where it is."""

from __future__ import annotations

from pathlib import Path


def folders() -> list[str]:
    """The folder of `hook-mblob.py`: the entry point `hook-dirs` of pyproject.toml leads here."""
    return [str(Path(__file__).resolve().parent)]
