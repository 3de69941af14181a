# shellcheck shell=bash
# shellcheck disable=SC2016 # apt's own $(FIELD)s
# Debian's packages: the programs the harness runs, and the archive this machine
# already uses (its apt sources; no host name stands here).

SUITE=bookworm

# need_tools PROGRAM...: what is missing is installed
need_tools() {
    local program package=() missing=()
    for program in "$@"; do
        command -v "$program" > /dev/null && continue
        missing+=("$program")
        case $program in
            qemu-system-x86_64) package+=(qemu-system-x86) ;;
            qemu-img) package+=(qemu-utils) ;;
            modprobe) package+=(kmod) ;;
            xz) package+=(xz-utils) ;;
            objcopy) package+=(binutils) ;;
            mkfs.ext4) package+=(e2fsprogs) ;;
            *) package+=("$program") ;;
        esac
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    say "installing ${package[*]}"
    machine_lists
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        "${package[@]}" > /dev/null < /dev/null || die "apt-get install ${package[*]} failed"
}

# The machine's own package lists, fetched if a fresh image came without any.
machine_lists() {
    [ -n "$(apt-get indextargets --format '$(FILENAME)' 'Created-By: Packages' |
        while read -r f; do [ ! -e "$f" ] || echo "$f"; done)" ] || apt-get update -qq
}

# archive_sources: the machine's Debian sources as one-line entries.  Names are
# those written in the sources, not those of the Release files: the latter are
# known only after an update.  The backports suite stands beside the main one, the
# contrib component in the same places as main.
archive_sources() {
    local targets main components=main
    targets=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v s="$SUITE" '$3 == "main" && ($2 == s || index($2, s "-") == 1) && $2 !~ /backports/ && !seen[$0]++')
    main=$(awk -v s="$SUITE" '$2 == s { print $1; exit }' <<< "$targets")
    [ -n "$main" ] || die "this machine's apt sources have no $SUITE (Debian 12); add it"
    [[ $* != *contrib* ]] || components="main contrib"
    awk -v c="$components" '{ print "deb", $1, $2, c }' <<< "$targets"
    [[ $* != *backports* ]] || echo "deb $main $SUITE-backports $components"
}

# archive_apt DIR TOOL ARG...: apt with sources and lists of its own under DIR, so
# that nothing of the machine's is changed; configuration (proxies …) is the machine's
archive_apt() {
    local d=$1 tool=$2
    shift 2
    "$tool" -o Dir::Etc::sourcelist="$d/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$d/lists" \
        -o Dir::State::status=/dev/null -o Dir::Cache="$d/cache" -o APT::Sandbox::User=root "$@"
}

# archive_open DIR [backports] [contrib]: sources and fresh lists in DIR
archive_open() {
    local d=$1
    shift
    mkdir -p "$d/lists/partial" "$d/cache/archives/partial"
    archive_sources "$@" > "$d/sources.list"
    archive_apt "$d" apt-get -qq update || die "the archive cannot be read: see above"
}

# archive_download DIR PACKAGE...: the .deb files, into the working directory
archive_download() {
    local d=$1
    shift
    archive_apt "$d" apt-get -qq download "$@"
}

# archive_settings: the machine's ways of reaching an archive, for mmdebstrap,
# which does not read the machine's apt.conf
archive_settings() {
    apt-config dump --format '%F "%v";%n' |
        grep -E '^Acquire::(http|https|Retries|Check-Valid-Until|Check-Date)\b' | grep -v ' "";$' || true
}

# cache_prune: what no run has used for two weeks; of saved machines, 200 MB each, a day
cache_prune() {
    find "$CACHE" -mindepth 1 -maxdepth 1 -name 'run.*' -mmin +1440 -exec rm -rf {} +
    find "$CACHE" -mindepth 2 -maxdepth 2 -name 'booted-*' -mmin +1440 -exec rm -rf {} +
    find "$CACHE" -mindepth 1 -maxdepth 1 \( -name 'kernel-*' -o -name 'image-*' -o -name 'zfs-*' \) \
        -mtime +14 -exec rm -rf {} +
}
