# Completion for bash. The names are those of --help: uroce itself is asked (apps/launch/completion.h).
_uroce() {
  # bash divides words at = and :, too. What stands before those in a word is not completed again.
  local line=${COMP_LINE:0:COMP_POINT} part=${COMP_WORDS[COMP_CWORD]} words before candidate first
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  # --option=value is asked for as --option value.
  [[ ${words[-1]} == --*=* ]] && words=("${words[@]:0:${#words[@]}-1}" "${words[-1]%%=*}" "${words[-1]#*=}")
  [[ $part == [=:] ]] && part=
  before=${words[-1]%"$part"}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    case $candidate in
      :files)
        compopt -o filenames
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$part")
        ;;
      :command*)
        # As _command_offset counts: the words of bash.
        first=$((${candidate#:command } + 1 + COMP_CWORD + 1 - ${#words[@]}))
        if declare -F _command_offset >/dev/null; then
          _command_offset "$first"
        elif ((first == COMP_CWORD)); then
          mapfile -t COMPREPLY < <(compgen -c -- "$part")
        else
          compopt -o default
        fi
        ;;
      "${words[-1]}"*) COMPREPLY+=("${candidate#"$before"}") ;;
    esac
  done < <("${words[0]/#\~/$HOME}" --complete "${words[@]:1}" 2>/dev/null)
}
complete -F _uroce uroce
