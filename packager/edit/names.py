"""Names of payloads and tensors that a library has, and that `add` adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mblob.errors import listed
from mblob.format.type_keys import GRAPHS, RELAX_EXECUTABLES, ROWS, SAFETENSORS
from mblob.inspect.library import EntryView, Library
from mblob.module import Module
from mblob.packager.edit.new_payloads import tensors_by_name
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import PayloadNode, node_of
from mblob.packager.modules.relax_parameters import check_parameters, is_set, warn_of_weights
from mblob.packager.modules.repeated_names import is_found_by_key


class Names:
    """Names of payloads and tensors that a library has, and that are added to it.

    Args:
        of_objects: the library is given as its objects, which are linked again.
    """

    def __init__(self, library: Library, replace: bool, *, of_objects: bool) -> None:
        self._library = library
        self._replace = replace and not of_objects
        self._how, self._swap = "replace=True replaces it", "swap replaces"
        self._whole = "with replace=True, give a file that has these tensors, too"
        if of_objects:
            build = f"make a library of {library.path} with build"
            self._how = f"{build}, and add to that with replace=True"
            self._swap = f"{build}, in which swap replaces"
            self._whole = (
                f"{build}, and add to that, with replace=True, a file that has these tensors, too"
            )
        self._tensors = tensors_by_name(library)
        self._replaced: set[int] = set()
        self._programs: set[int] = set()  # that get parameters

    def taken_by(self, module: Module, importer: int) -> int | None:
        """The entry that a module takes the place of; None if it is one more.

        Args:
            importer: the entry that shall import it.

        Raises:
            BuildError: another module has its names, and stays.
        """
        node = node_of(module)
        if module.type_key in GRAPHS and isinstance(node, PayloadNode):
            self.check_parameters(module.type_key, node.tensor_names)
            return None
        names = node.tensor_names if isinstance(node, PayloadNode) else ()
        # Of other modules programs ask for the functions. A tree may have any number of a key.
        old = self._old_set(importer, module) if is_set(module) else None
        entry = self._with_tensors(names, old) if names or old else None
        if not names and is_found_by_key(node):
            entry = self._with_key(node.type_key)
        if entry is None:
            return None
        if entry.index in self._replaced:
            raise BuildError(f"{entry.place}: replaced twice")
        self._replaced.add(entry.index)
        return entry.index

    def _with_key(self, key: str) -> EntryView | None:
        entries = [e for e in self._library.entries if e.type_key == key]
        if not entries or key in ROWS or key == SAFETENSORS:  # of which a tree may have any number
            return None
        if len(entries) == 1 and self._replace:
            return entries[0]
        how = self._how if len(entries) == 1 else f"{self._swap} one of them"
        raise BuildError(
            f"{entries[0].place}: the library has a payload of this key already; {how}"
        )

    def _old_set(self, importer: int, new: Module) -> EntryView | None:
        """The parameters of a program that imports new ones, through an entry.

        Raises:
            BuildError: it would have two sets, or takes other parameters.
        """
        entries = self._library.entries
        for program in (e.index for e in entries if e.type_key in RELAX_EXECUTABLES):
            found = below(self._library, program)
            if importer not in found:
                continue
            if program in self._programs:
                raise BuildError(
                    f"{entries[program].place}: two sets of parameters; a program has one"
                )
            self._programs.add(program)
            old, grammars = entries[program], self._library.grammars
            check_parameters(old.place, old.type_key, old.view(), grammars, new)
            for e in (entries[i] for i in found if entries[i].type_key == SAFETENSORS):
                if "parameters" in e.content.facts and not self._replace:
                    raise BuildError(
                        f"{e.place}: the program has these parameters, and takes one set; {self._how}"
                    )
                if "parameters" in e.content.facts:
                    return e
        return None

    def warn_of_weights(self, modules: Sequence[Module]) -> None:
        """As of `warn_of_weights`, of the programs that have no parameters and get none."""
        entries = self._library.entries
        for e in entries:
            if e.type_key in RELAX_EXECUTABLES and e.index not in self._programs:
                sets = (entries[i] for i in below(self._library, e.index))
                if not any(
                    "parameters" in s.content.facts for s in sets if s.type_key == SAFETENSORS
                ):
                    warn_of_weights(e.place, e.type_key, e.view(), self._library.grammars, modules)

    def check_parameters(self, model: str, params: Iterable[str]) -> None:
        """Refuse parameters of a graph that weights have, too, where programs find them.

        Raises:
            BuildError: naming the tensor.
        """
        for name in params:
            for entry, _ in self._tensors.get(name, ()):
                if entry.type_key == SAFETENSORS:
                    raise BuildError(
                        f"{entry.place}: has a tensor {name[:80]!r} already, of which programs would find only one;"
                        f" rename it there, so that the {model} can have a parameter of this name"
                    )

    def _with_tensors(self, names: Sequence[str], old: EntryView | None) -> EntryView | None:
        places = {
            e.index: name
            for name in names
            for e, _ in self._tensors.get(name, ())
            if old is None or e.index != old.index
        }
        if not places:
            return old
        index, name = min(places.items())
        entry = self._library.entries[index]
        what = f"{entry.place}: has a tensor {name[:80]!r} already"
        if old is not None:
            raise BuildError(f"{what}; give the parameters other names")
        missing = {t.name for t in entry.tensors} - set(names)
        if len(places) > 1 or entry.type_key != SAFETENSORS or missing:
            others = (
                f", a parameter of the {entry.type_key}; params= gives a model other parameters"
                if entry.type_key in GRAPHS
                else f" beside others ({listed(sorted(missing), 6)}), which replacing this module would lose"
                if missing
                else ", and further modules have others of the new names"
            )
            is_whole = missing and len(places) == 1 and entry.type_key == SAFETENSORS
            whole = f"; for other types and shapes, {self._whole}" if is_whole else ""
            raise BuildError(
                f"{what}{others}; {self._swap} single tensors, by ones of their type and shape{whole}"
            )
        if not self._replace:
            raise BuildError(f"{what}; {self._how}")
        return entry


def below(library: Library, index: int) -> list[int]:
    """An entry and all that it imports, in the order in which they are met."""
    found, todo = dict.fromkeys([index]), [index]
    while todo:
        new = [c for c in library.entries[todo.pop()].imports if c not in found]
        found.update(dict.fromkeys(new))
        todo += new
    return list(found)
