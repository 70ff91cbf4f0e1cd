"""Shell completion for `informer`: commands, keys, options of config groups, files."""

from collections.abc import Sequence

from informer.config import conversion
from informer.runtime import resource

SHELLS = ("bash", "zsh", "fish")

BASH = """\
# bash completion of informer: eval "$(informer completion bash)"
_informer_words() {{
  case "$1" in
{cases}
  esac
}}
_informer() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words line before
  # the shell splits key=value at the equals sign
  line="${{COMP_LINE:0:COMP_POINT}}"
  current="${{line##* }}"
  COMPREPLY=()
  if [ "$COMP_CWORD" -le 1 ]; then
    COMPREPLY=( $(compgen -W "{commands}" -- "$current") )
    return
  fi
  words="$(_informer_words "${{COMP_WORDS[1]}}")"
  COMPREPLY=( $(compgen -W "$words" -- "$current") )
  if [[ "$current" == *=* ]]; then
    before="${{current%%=*}}="
    COMPREPLY=( "${{COMPREPLY[@]#"$before"}}" )
    [ ${{#COMPREPLY[@]}} -eq 0 ] && COMPREPLY=( $(compgen -f -- "${{current#*=}}") )
  else
    COMPREPLY+=( $(compgen -f -- "$current") )
    [[ ${{#COMPREPLY[@]}} -eq 1 && "${{COMPREPLY[0]}}" == *= ]] && compopt -o nospace 2>/dev/null
  fi
}}
complete -o filenames -F _informer informer
"""

ZSH = """\
# zsh completion of informer: eval "$(informer completion zsh)"
_informer() {{
  local -a words_of
  if (( CURRENT == 2 )); then
    compadd -- {commands}
    return
  fi
  case "$words[2]" in
{cases}
  esac
  compadd -S '' -- ${{(M)words_of:#*=}}
  compadd -- ${{words_of:#*=}}
  _files
}}
compdef _informer informer
"""

FISH = """\
# fish completion of informer: informer completion fish | source
complete -c informer -n __fish_use_subcommand -f -a '{commands}'
{cases}
"""


def script(shell: str, commands: Sequence[str]) -> str:
    """The completion script for a shell.

    Args:
        shell: one of `SHELLS`.
        commands: all commands of the console script; keys are completed for those that have a configuration.
    """
    completions = {name: words_of(name) for name in commands if name in conversion.SCHEMAS}
    names = " ".join([*commands, "completion"])
    if shell == "bash":
        cases = (f"  {name}) echo '{' '.join(words)}' ;;" for name, words in completions.items())
        return BASH.format(commands=names, cases="\n".join(cases))
    if shell == "zsh":
        cases = (f"  {name}) words_of=({' '.join(words)}) ;;" for name, words in completions.items())
        return ZSH.format(commands=names, cases="\n".join(cases))
    cases = (
        f"complete -c informer -n '__fish_seen_subcommand_from {name}' -a '{' '.join(words)}'"
        for name, words in completions.items()
    )
    return FISH.format(commands=names, cases="\n".join(cases))


def words_of(command: str) -> list[str]:
    """Words that may follow a command: `key=` for every key, `group=option` for every option of its config groups."""
    defaults = conversion.read_yaml(resource("conf") / f"{command}.yaml")["defaults"]
    groups = [group for entry in defaults if isinstance(entry, dict) for group in entry if "@" not in group]
    choices = [f"{group}={option}" for group in groups for option in conversion.options_of(group)]
    keys = (key for key in conversion.known_keys(command) if key not in groups)
    return [*choices, *(f"{key}=" for key in keys)]
