"""Sources with vector types, on their way to the compiler: preprocessed, rewritten, preprocessed
text compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mblob.packager.compile.commands import language, preprocess_command, source_macros
from mblob.packager.compile.processes import Job, run_all
from mblob.packager.compile.toolchain import Toolchain
from mblob.packager.errors import BuildError
from mblob.packager.modules.nodes import SourceNode


def without_vectors(
    tools: Toolchain,
    sources: Mapping[int, tuple[SourceNode, Path, str]],
    options: Sequence[str],
    work: Path,
) -> dict[int, Path]:
    """Rewrite the sources that use vector types.

    The compiler preprocesses them first: vectors may come from macros and headers, and a name that
    a header declares is the user's. Sources without a word that may be such a type cost a search in
    their text.

    Args:
        sources: by number, with their files and what messages call them.

    Returns:
        for those that were rewritten, the preprocessed text to compile.

    Raises:
        ToolchainError: a source cannot be preprocessed. BuildError: vectors that cannot be
            combined.
    """
    from mblob.packager.compile.vector_c.mentions import mentions

    texts = {i: node.text() for i, (node, _, _) in sources.items() if language(node) != "cuda"}
    texts = {i: text for i, text in texts.items() if mentions(text)}
    if not texts:
        return {}
    from mblob.packager.compile.vector_c import rewrite  # for those who need it

    jobs = []
    for i, text in texts.items():
        node, path, label = sources[i]
        first = rewrite.preprocessor_options(text)
        jobs.append(
            Job(label, preprocess_command(tools, node, path, f"lib{i}.i", options, work, first))
        )
    run_all(jobs, work)
    made: dict[int, Path] = {}
    for i in texts:
        output = work / f"lib{i}.i"
        head, user = rewrite.user_part(output.read_text("utf-8", "surrogateescape"))
        node, path, label = sources[i]
        # A text of the caller's lies in a folder that is gone when the error is read.
        rewritten = rewrite.rewrite(
            user, label, {} if isinstance(node.code, Path) else {str(path): path.name}
        )
        if rewritten is not None:
            text = rewrite.in_preprocessed(head, rewritten)
            output.write_bytes(text.encode(errors="surrogateescape"))
            made[i] = output
    return made


def in_words_of_the_source(output: str) -> str:
    """What a compiler said about the text of `without_vectors`, as it would about the source."""
    from mblob.packager.compile.vector_c.rewrite import in_words_of_the_source as translated

    return translated(output)


def standalone_text(node: SourceNode, name: str) -> str:
    """The text of a source for a compiler that a caller runs: rewritten if it uses vector types,
    else as it is.

    We do not know that compiler, nor can we ask it to preprocess: it may be for another machine, or
    none at all.

    Raises:
        BuildError: vectors that cannot be combined, or that stand in macros or in a header beside
            the source.
    """
    from mblob.packager.compile.vector_c.mentions import mentions

    text = node.text()
    macros = "".join(f"#define {macro}\n" for macro in source_macros(node))
    if language(node) != "cuda" and mentions(text):
        from mblob.packager.compile.vector_c.own_names import hidden_vectors
        from mblob.packager.compile.vector_c.rewrite import rewrite, standalone

        folder = node.code.parent if isinstance(node.code, Path) else None
        file = str(node.code) if isinstance(node.code, Path) else name
        if (hidden := hidden_vectors(text, file, folder)) is not None:
            raise BuildError(
                f"{hidden}; for an fcompile only what stands in the source itself can be rewritten:"
                " move it there, or export without fcompile"
            )
        made = rewrite(text, file)
        if made is not None:
            return macros + standalone(made, file)
    return f'{macros}#line 1 "{name}"\n{text}' if macros else text
