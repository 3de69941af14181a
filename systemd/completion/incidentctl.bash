# bash completion for incidentctl(1), which knows itself what could come next.
_incidentctl() {
    local current=${COMP_WORDS[COMP_CWORD]} line
    COMPREPLY=()
    # "--rule=" comes as two words, the second of which is not being replaced
    [[ $current != = ]] || current=
    while IFS= read -r line; do
        case $line in
        :files)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            ;;
        :directories)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$current")
            ;;
        *) COMPREPLY+=("$line") ;;
        esac
    done < <(incidentctl complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o nosort -F _incidentctl incidentctl
