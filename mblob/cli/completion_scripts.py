"""The scripts of `mblob-pack completion`, one for each shell, from the verbs and options that the parsers have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from mblob.cli.completion import HEAD, kind_of
from mblob.cli.completion_bash import bash
from mblob.cli.described import Argument, program

# -- zsh --------------------------------------------------------------------------------------------------

ZSH = r"""
# The library on the command line: the first word behind the verb that is no option and a file.
_mblob_pack_names() {
  local -a names
  local word file
  for word in "${words[@]:1}"; do
    word=${${(Q)word}/#\~\//$HOME/}
    [[ $word != -* && -f $word ]] && { file=$word; break }
  done
  [[ -n $file ]] || return 1
  names=(${(f)"$(_call_program names ${(q)_mblob_pack_command} completion $1 ${(q)file} 2>/dev/null)"})
  shift
  compadd "$@" -a names
}

# NAME=FILE: names of the kind $1 ("": none), a file behind the = that fits the pattern $3, and if $2 is not empty, a
# file without a name.
_mblob_pack_named() {
  local -i found=1
  if compset -P 1 '*='; then
    _files ${3:+-g} $3
    return
  fi
  [[ -n $1 ]] && _mblob_pack_names $1 -q -S = && found=0
  [[ -n $2 ]] && _files ${3:+-g} $3 && found=0
  return found
}

# _arguments puts words of its own in front of those of an action, so each kind of name has a function.
_mblob_pack_entries() { _mblob_pack_names entries }
_mblob_pack_tensors() { _mblob_pack_names tensors }
_mblob_pack_call() { _mblob_pack_names functions || _files -g "*.(npy|npz)(-.)" }

_mblob_pack() {
  local curcontext=$curcontext state line _mblob_pack_command=$words[1]
  typeset -A opt_args
  _arguments -C @OWN@ '1: :->verb' '*:: :->rest'
  case $state in
    verb)
      local -a verbs
      verbs=(@VERBS@)
      _describe verb verbs ;;
    rest)
      case $line[1] in
@CASES@
      esac ;;
  esac
}

if [ "$funcstack[1]" = _mblob_pack ]; then
  _mblob_pack "$@"
else
  compdef _mblob_pack mblob-pack
fi
"""


def zsh() -> str:
    """For zsh, as a file `_mblob-pack` on its fpath or to be evaluated."""
    whole, verbs = program()
    own = [spec for a in whole.options for spec in _zsh_specs(a)]
    listed = [shlex.quote(f"{_zsh_text(v.name)}:{v.summary}") for v in verbs]
    cases = []
    for v in verbs:
        specs = [spec for a in v.arguments for spec in _zsh_specs(a)]
        rest = ["'*:flags of the compiler:_files'"] if v.name == "build" else []
        cases.append(f"        {v.name}) _arguments -s " + " ".join([*specs, *rest]) + " ;;")
    script = ZSH.replace("@OWN@", " ".join(own)).replace("@VERBS@", " ".join(listed))
    return "#compdef mblob-pack\n" + HEAD.format(shell="zsh") + script.replace("@CASES@", "\n".join(cases))


def _zsh_text(text: str) -> str:
    for sign in "\\:[]":
        text = text.replace(sign, f"\\{sign}")
    return text


def _zsh_specs(a: Argument) -> Iterator[str]:
    what = f":{_zsh_text(a.metavar)}:{_zsh_action(a)}" if a.metavar else ""
    if not a.names:
        yield shlex.quote(("*" if a.repeated else "" if a.required else ":") + what)
        return
    others = "" if a.repeated else f"({' '.join(a.names)})"
    for name in a.names:
        value = "+" if a.metavar and not name.startswith("--") else "=" if a.metavar else ""
        yield shlex.quote(f"{'*' if a.repeated else others}{name}{value}[{_zsh_text(a.help)}]{what}")


def _zsh_action(a: Argument) -> str:
    kind, *rest = kind_of(a) or ("",)
    if kind == "words":
        return f"({' '.join(rest)})"
    if kind == "files":
        return f'_files -g "{_zsh_pattern(rest)}"' if rest else "_files"
    if kind == "named":
        name, alone, *endings = rest
        pattern = _zsh_pattern(endings) if endings else ""
        return f'{{_mblob_pack_named "{name}" "{alone}" "{pattern}"}}'
    return {"folders": "_files -/", "functions": "_mblob_pack_call", "entries": "_mblob_pack_entries",
            "tensors": "_mblob_pack_tensors"}.get(kind, " ")


def _zsh_pattern(endings: Sequence[str]) -> str:
    return f"*.({'|'.join(endings)})(-.)"


# -- fish -------------------------------------------------------------------------------------------------

FISH = r"""
# The library on the command line: the first word behind the verb that is no option and a file.
function __mblob_pack_names
    set -l words (commandline -opc)
    for word in (string replace -r -- '^~/' "$HOME/" $words[3..-1])
        if not string match -q -- '-*' $word; and test -f $word
            command $words[1] completion $argv[1] $word 2>/dev/null
            return
        end
    end
end

# Whether the verb is $argv[1] and, with a second argument, so many words that are neither options nor their values
# follow it; with a third, at least so many.
function __mblob_pack_at
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test "$words[2]" = $argv[1]; or return 1
    set -q argv[2]; or return 0
    set -l valued @VALUED@
    set -l found 0
    set -l skip 0
    for word in $words[3..-1]
        if test $skip -eq 1
            set skip 0
        else if contains -- "$argv[1]:$word" $valued
            set skip 1
        else if not string match -q -- '-*' $word
            set found (math $found + 1)
        end
    end
    test $found -eq $argv[2]; or begin; set -q argv[3]; and test $found -gt $argv[2]; end
end

# NAME=FILE: names of the kind $argv[1] ("": none), a file behind the =, those with the endings in $argv[3..-1] before
# all others, and if $argv[2] is not empty, a file without a name.
function __mblob_pack_named
    set -l token (string replace -r -- '^--[a-z-]+=' '' "$(commandline -ct)")
    set -l name (string match -r -- '^[^=]*=' "$token")
    if test -z "$name"
        test -n "$argv[1]"; and __mblob_pack_names $argv[1] | string replace -r '$' '='
        test -n "$argv[2]"; or return
    end
    set -l paths (__fish_complete_path (string replace -r -- '^[^=]*=' '' "$token") | string replace -r '\t.*' '')
    set -l first
    for ending in $argv[3..-1]
        set -a first (string match -- "*.$ending" $paths)
    end
    for path in $first $paths
        echo -- "$name$path"
    end
end

complete -c mblob-pack -f
"""


def fish() -> str:
    """For fish 3 and later."""
    whole, verbs = program()
    lines = [f"complete -c mblob-pack -n __fish_use_subcommand{_fish_option(a)}" for a in whole.options]
    for v in verbs:
        lines.append(f"complete -c mblob-pack -n __fish_use_subcommand -a {v.name} -d {_fish_text(v.summary)}")
    for v in verbs:
        lines += [f"complete -c mblob-pack -n '__mblob_pack_at {v.name}'{_fish_option(a)}" for a in v.options]
        for i, a in enumerate(v.positionals):
            more = " more" if a.repeated and "functions" not in kind_of(a) else ""
            if kind_of(a):
                lines.append(f"complete -c mblob-pack -n '__mblob_pack_at {v.name} {i}{more}'{_fish_value(a)}")
            if "functions" in kind_of(a):  # the function first, then its arguments
                files = _fish_files(kind_of(a)[1:])
                lines.append(f"complete -c mblob-pack -n '__mblob_pack_at {v.name} {i + 1} more'{files}")
    valued = [f"{v.name}:{n}" for v in verbs for a in v.options if a.metavar for n in a.names]
    script = FISH.replace("@VALUED@", " ".join(valued))
    return HEAD.format(shell="fish") + script + "\n".join(lines) + "\n"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fish_option(a: Argument) -> str:
    names = "".join(f" -l {n[2:]}" if n.startswith("--") else f" -s {n[1:]}" for n in a.names)
    return f"{names} -d {_fish_text(a.help)}" + (f" -r{_fish_value(a)}" if a.metavar else "")


def _fish_value(a: Argument) -> str:
    kind, *rest = kind_of(a) or ("",)
    if kind == "words":
        return f" -f -a '{' '.join(rest)}'"
    if kind == "files":
        return _fish_files(rest)
    if kind == "folders":
        return " -f -a '(__fish_complete_directories)'"
    if kind == "named":
        words = " ".join(f'"{word}"' for word in rest)
        return f" -f -k -a '(__mblob_pack_named {words})'"
    return f" -f -a '(__mblob_pack_names {kind})'" if kind else " -f"


def _fish_files(endings: Sequence[str]) -> str:
    """Files with one of the endings before all others; fish has no way to leave the others out."""
    plain = [ending for ending in endings if "*" not in ending]
    if not plain:
        return " -F"
    return f" -f -k -a '({'; '.join(f'__fish_complete_suffix .{e}' for e in plain)})'"


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
