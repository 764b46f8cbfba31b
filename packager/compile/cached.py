"""Compilations whose object may be there already."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from mblob.errors import ToolchainError
from mblob.packager.compile.compile_key import Key, can_have_key, key_of
from mblob.packager.compile.object_cache import ObjectCache
from mblob.packager.compile.processes import Job, Processes, Runner, plainly


def runner_with(cache: ObjectCache | None) -> Runner:
    """Runs compilations, with a cache or without."""
    return plainly if cache is None else Cached(cache)


def _key_of(processes: Processes, job: Job, cwd: Path) -> Key | None:
    """The key; None too where the compiler or the disk fails, which the compilation will say better."""
    try:
        return key_of(job, processes.run, cwd)
    except (OSError, ToolchainError):
        return None


@dataclass(frozen=True)
class Cached:
    """Runs a compilation, as of `mblob.packager.compile.processes.run_all`, unless its object is in a cache."""

    cache: ObjectCache

    def __call__(self, processes: Processes, job: Job, cwd: Path) -> tuple[int, str]:
        """Exit status and everything printed; nothing is printed where nothing ran."""
        if not can_have_key(job):
            return processes.run(job.command, cwd)
        started = time.time()
        key = _key_of(processes, job, cwd)
        if key is None:
            return processes.run(job.command, cwd)
        output = cwd / job.output
        found = self.cache.get(key.name)
        if found is not None:
            output.write_bytes(found)
            return 0, ""
        status, said = processes.run(job.command, cwd)
        if status == 0 and output.is_file():
            made = output.read_bytes()
            settled = key.is_older_than(started) or key == _key_of(processes, job, cwd)
            # An object that has our folder's name in it is of this one export.
            if made and settled and str(cwd).encode(errors="surrogateescape") not in made:
                self.cache.put(key.name, made)
        return status, said
