# Completion for bash. The names are those of --help: uroce itself is asked (apps/launch/completion.h).
_uroce() {
  local current=${COMP_WORDS[COMP_CWORD]} candidate first
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    case $candidate in
      :files)
        compopt -o filenames
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
        ;;
      :command*)
        first=$((${candidate#:command } + 1))
        if declare -F _command_offset >/dev/null; then
          _command_offset "$first"
        elif ((first == COMP_CWORD)); then
          mapfile -t COMPREPLY < <(compgen -c -- "$current")
        else
          compopt -o default
        fi
        ;;
      "$current"*) COMPREPLY+=("$candidate") ;;
    esac
  done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _uroce uroce
