"""The script of `mblob-pack completion bash`, from the verbs and options that the parsers have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from mblob.cli.completion import HEAD, kind_of
from mblob.cli.described import Argument, Verb, program

BASH = r"""
# Files with one of the endings in $2..., folders, and names that begin with $1.
_mblob_pack_files() {
  local current=$1 ending
  shift
  compopt -o filenames 2>/dev/null
  if [ $# -eq 0 ]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
    return
  fi
  mapfile -t COMPREPLY < <(for ending; do compgen -f -X "!*.$ending" -- "$current"; done; compgen -d -- "$current")
}

_mblob_pack_words() {
  local current=$1 word
  shift
  for word; do [[ $word == "$current"* ]] && COMPREPLY+=("$word"); done
}

# Names in the library $3; they come one a line and are never expanded.
_mblob_pack_names() {
  local current=$1 name
  [ -f "$3" ] || return
  while IFS= read -r name; do
    [[ $name == "$current"* ]] && COMPREPLY+=("$name")
  done < <("${COMP_WORDS[0]}" completion "$2" "$3" 2>/dev/null)
}

# NAME=FILE: names of the kind $1 ("": none), a file with one of the endings in $3... behind the =, and if $2 is not
# empty, a file without a name.
_mblob_pack_named() {
  local kind=$1 alone=$2 name
  local -a names
  shift 2
  if [[ $current == *=* ]]; then
    head+=${current%%=*}=
    current=${current#*=}
    _mblob_pack_files "$current" "$@"
    return
  fi
  [ -n "$kind" ] && _mblob_pack_names "$current" "$kind" "$file"
  if [ ${#COMPREPLY[@]} -eq 0 ]; then
    [ -n "$alone" ] && _mblob_pack_files "$current" "$@"
    return
  fi
  names=("${COMPREPLY[@]/%/=}")
  COMPREPLY=()
  [ -n "$alone" ] && _mblob_pack_files "$current" "$@"
  compopt -o nospace +o filenames 2>/dev/null  # or the = would be taken for part of a file's name, and quoted
  for name in ${COMPREPLY[@]+"${COMPREPLY[@]}"}; do printf -v name %q "$name"; names+=("$name"); done
  COMPREPLY=("${names[@]}")
}

# The word $1 as the program will get it, in REPLY: quotes and backslashes are taken off, and nothing is expanded.
_mblob_pack_plain() {
  local raw=$1 quote= letter i
  REPLY=
  for ((i = 0; i < ${#raw}; i++)); do
    letter=${raw:i:1}
    case $quote$letter in
      \\ | \"\\) ((i++)); REPLY+=${raw:i:1} ;;
      \' | \") quote=$letter ;;
      \'\' | \"\") quote= ;;
      *) REPLY+=$letter ;;
    esac
  done
}

_mblob_pack() {
  local verb= file= option= head= current= last= word REPLY lead i count=0 n=0
  local -a line=()
  COMPREPLY=()
  for ((i = 1; i <= COMP_CWORD; i++)); do  # readline takes words apart at = and :, which come as words of their own
    word=${COMP_WORDS[i]}
    _mblob_pack_plain "$word"
    if ((n)) && [[ $word =~ ^[=:]+$ || ${COMP_WORDS[i - 1]} =~ ^[=:]+$ ]]; then
      line[n - 1]+=$REPLY
    else
      line[n++]=$REPLY
    fi
    last=$REPLY
    [[ $word =~ ^[=:]+$ ]] && last=
  done
  current=${line[n - 1]}
  lead=$((${#current} - ${#last}))  # what of it stays, as readline replaces the last piece alone
  for word in ${line[@]+"${line[@]:0:n - 1}"}; do
    if [ -n "$option" ]; then
      option=
    elif [ -z "$verb" ]; then
      [[ $word == -* ]] || verb=$word
    elif [ "$verb $word" = "build --" ]; then
      _mblob_pack_files "$current"
      _mblob_pack_trim
      return
    else
      case "$verb $word" in
@VALUED@) option=$word; continue ;;
      esac
      [[ $word == -* ]] && continue
      [ $count -eq 0 ] && file=${word/#\~\//~/}
      ((count++))
    fi
  done
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*}
    head=$option=
    current=${current#*=}
  fi
  _mblob_pack_value
  _mblob_pack_trim
}

# What the word may become, without its first $head.
_mblob_pack_value() {
  if [ -n "$option" ]; then
    case "$verb $option" in
@VALUES@
    esac
  elif [ -z "$verb" ]; then
    _mblob_pack_words "$current" @VERBS@
  elif [[ $current == -* ]]; then
    case $verb in
@OPTIONS@
    esac
  else
    case $verb in
@POSITIONALS@
    esac
  fi
}

# Leave of each what readline replaces.
_mblob_pack_trim() {
  local i word
  for i in ${COMPREPLY[@]+"${!COMPREPLY[@]}"}; do
    word=$head${COMPREPLY[i]}
    COMPREPLY[i]=${word:lead}
  done
}

complete -F _mblob_pack mblob-pack
"""


def bash() -> str:
    """For bash 4 and later."""
    whole, verbs = program()
    valued = [f'"{v.name} {n}"' for v in verbs for a in v.options if a.metavar for n in a.names]
    values = [
        f"    {'|'.join(shlex.quote(f'{v.name} {n}') for n in a.names)}) {_bash_action(a)} ;;"
        for v in verbs
        for a in v.options
        if a.metavar
    ]
    first = [v.name for v in verbs] + [n for a in whole.options for n in a.names]
    options = [f"      {v.name}) _mblob_pack_words \"$current\" {_words(v)} ;;" for v in verbs]
    positionals = [line for v in verbs for line in _bash_positionals(v)]
    script = HEAD.format(shell="bash") + BASH
    for place, text in (
        ("VALUED", "        " + " | ".join(valued)), ("VALUES", "\n".join(values)), ("VERBS", " ".join(first)),
        ("OPTIONS", "\n".join(options)), ("POSITIONALS", "\n".join(positionals)),
    ):  # fmt: skip
        script = script.replace(f"@{place}@", text)
    return script


def _words(verb: Verb) -> str:
    return " ".join(n for a in verb.options for n in a.names)


def _bash_positionals(verb: Verb) -> Iterator[str]:
    if not verb.positionals:
        return
    yield f"      {verb.name})"
    yield "        case $count in"
    for i, a in enumerate(verb.positionals):
        yield f"          {'*' if a.repeated else i}) {_bash_action(a)} ;;"
    yield "        esac ;;"


def _bash_action(a: Argument) -> str:
    kind, *rest = kind_of(a) or ("",)
    if kind == "words":
        return f'_mblob_pack_words "$current" {" ".join(map(shlex.quote, rest))}'
    if kind == "files":
        return " ".join(['_mblob_pack_files "$current"', *map(shlex.quote, rest)])
    if kind == "folders":
        return 'compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current")'
    if kind == "named":
        return " ".join(["_mblob_pack_named", *map(shlex.quote, rest)])
    if kind == "functions":  # the function first, then its arguments
        files = " ".join(map(shlex.quote, rest))
        names = '_mblob_pack_names "$current" functions "$file"'
        return f'if [ $count -eq 1 ]; then {names}; else _mblob_pack_files "$current" {files}; fi'
    return f'_mblob_pack_names "$current" {kind} "$file"' if kind else ":"
