# shellcheck shell=bash
# Inside the guest: sourced by every case as /host/lib.sh.  A check prints
# "ok N - what" or "not ok N - what" and its reasons as "# " lines; the case ends
# with the plan, "1..N".
#
# BUILD, SOURCE: the build and the source directory, read-only; INSTALL: what
# make install puts on a machine; OUT: files left there come out (--out DIR).
#
# A case's header, the comment lines at its top, may ask for a machine of its own:
#   # needs: zfs      skipped where ZFS is not built (install_zfs below lays it out)
#   # memory: 256     MB
#   # disks: 2        empty ones: /dev/vdb, /dev/vdc (one unless it says so)
#   # kernels: 6.1 backports    those it runs on (6.1 unless it says so)
#   # late: WHY       after the others, where a budget may end
set -uo pipefail

checks=0

note() { printf '%s\n' "$*" | sed 's/^/# /'; }
ok() { checks=$((checks + 1)); echo "ok $checks - $*"; }
fail() { # fail WHAT [REASON...]
    checks=$((checks + 1))
    echo "not ok $checks - $1"
    shift
    [ $# = 0 ] || note "$@"
}
skip() { checks=$((checks + 1)); echo "ok $checks - $1 # SKIP ${2:-}"; }

# stage WHAT: where the time goes
stage() { echo "# $SECONDS s: $*"; }

# check WHAT COMMAND...: holds if the command succeeds; its output is the reason if not
check() {
    local what=$1 output
    shift
    if output=$("$@" 2>&1); then ok "$what"; else fail "$what" "$* (status $?)" "$output"; fi
}

# same WHAT EXPECTED ACTUAL
same() { if [ "$2" = "$3" ]; then ok "$1"; else fail "$1" "expected: $2" "found:    $3"; fi; }

# has WHAT PATTERN TEXT: an extended regular expression somewhere in it
has() { if grep -qE -- "$2" <<< "$3"; then ok "$1"; else fail "$1" "no match for: $2" "in: $3"; fi; }

# within SECONDS COMMAND...: until it succeeds; emulation is slow, and the host may be: limits are generous
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.2
    done
}

# need WHAT COMMAND...: the whole case is skipped where it fails
need() {
    local what=$1
    shift
    "$@" > /dev/null 2>&1 || { skip "$what" "not there"; exit 0; }
}

# install_incidentd: as make install does, or the case is skipped; a library that the
# image lacks is named here and not by a service that does not start
install_incidentd() {
    local program
    need "incidentd installed" test -n "$(find "$INSTALL" -name incidentd -type f -executable)"
    cp -a "$INSTALL/." /
    hash -r
    for program in incidentd incidentctl; do
        if ldd "$(command -v $program)" 2>&1 | grep -q 'not found'; then
            fail "$program's libraries" "$(ldd "$(command -v $program)" | grep 'not found')"
            exit 0
        fi
    done
}

# install_zfs: programs and modules; the module is not loaded
install_zfs() {
    need "ZFS" test -x "$ZFS/usr/sbin/zpool"
    cp -a "$ZFS/." /
    hash -r
    if ldd "$(command -v zpool)" 2>&1 | grep -q 'not found'; then
        fail "zpool's libraries" "$(ldd "$(command -v zpool)" | grep 'not found')"
        exit 0
    fi
}

# start_incidentd RULES [SETTINGS]: the shipped unit, so that whatever a case finds in a bundle
# has come through its sandbox; with the shipped settings but for the time that
# systemd-coredump may take here, no cost budget on a machine that is slow for other reasons, and what SETTINGS (lines of sed) change
start_incidentd() {
    sed -e 's/^#core_wait = .*/core_wait = "5m"/' -e 's/^#budget = .*/budget = "off"/' -e "${2:-}" "$SOURCE/systemd/incidentd.toml" > /root/incidentd.toml
    unit_drop_in case "Environment=\"INCIDENTD_OPTIONS=--config /root/incidentd.toml --rules $1\""
    systemctl start incidentd && within 300 incidentctl --json status
}
# unit_drop_in NAME LINE...: into [Service] of incidentd.service; NAME alone takes it away
unit_drop_in() {
    local file=/etc/systemd/system/incidentd.service.d/$1.conf
    shift
    mkdir -p "${file%/*}"
    if [ $# = 0 ]; then rm -f "$file"; else printf '%s\n' '[Service]' "$@" > "$file"; fi
    systemctl daemon-reload
}
daemon_log() { journalctl -u incidentd -n 60 -o cat; }
# still_up: as a check; if not, why
still_up() {
    if systemctl is-active --quiet incidentd; then
        ok "the daemon is still up"
    else
        fail "the daemon is still up" "$(systemctl status incidentd)" "$(daemon_log)"
    fi
}

# rule_state NAME: "active", "unavailable: why", "not loaded"
rule_state() {
    incidentctl --json status |
        json "next((': '.join(filter(None, (r['state'], r.get('reason')))) for r in d['rules'] if r['name'] == '$1'), 'not loaded')"
}

# need_rule NAME STATE: it is in that state, or the case ends
need_rule() {
    local state
    state=$(rule_state "$1")
    same "rule $1: $2" "$2" "$state"
    [ "$state" = "$2" ] || { note "$(daemon_log)"; exit 0; }
}

# incident_of RULE SECONDS: waits for one that it has not returned before; sets bundle, which is copied
# to $OUT.  Not by incidentctl wait, for which one of more than 5 s ago is too old: the guest is slow.
returned=' '
new_incident() {
    local dir
    for dir in /var/lib/incidentd/incidents/[!.]*"Z-$1-"*; do
        if [ -d "$dir" ] && [[ $returned != *" $dir "* ]]; then
            bundle=$dir
            return 0
        fi
    done
    return 1
}
incident_of() {
    bundle=''
    if ! within "$2" new_incident "$1"; then
        ls -A /var/lib/incidentd/incidents > /tmp/waited
        return 1
    fi
    returned+="$bundle "
    # For whoever reads --out; no part of the case.  The analysis and the core's link put another directory
    # under the bundle's name, and a copy that is under way then is of neither.
    within 60 copied_out "$bundle" || note "no copy of $bundle was taken"
}
copied_out() { rm -rf "${OUT:?}/${1##*/}" && cp -r "$1" "$OUT/"; }
incident() { json "$1" "$bundle/incident.json"; }

# what a writer that was interrupted leaves; bundles that are not whole
half_written() {
    find /var/lib/incidentd/incidents -mindepth 1 -maxdepth 1 -regextype posix-extended \
        -regex '.*/\.(partial|amend|replaced|removed)-[^/]*'
}
flawed_bundles() {
    local dir
    for dir in /var/lib/incidentd/incidents/[!.]*; do
        incidentctl verify "${dir##*/}" > /dev/null 2>&1 || echo "${dir##*/}"
    done
}

# json EXPRESSION [FILE]: EXPRESSION over d, the document; strings bare, the rest as JSON
json() {
    python3 -c '
import json, sys
d = json.load(open(sys.argv[2]) if len(sys.argv) > 2 else sys.stdin)
v = eval(sys.argv[1])
print(v if isinstance(v, str) else json.dumps(v))' "$@"
}

# unit_tests PROGRAM FILTER LEAST: runs them, each a check; LEAST: how many there are at least
unit_tests() {
    local before=$checks line
    while IFS= read -r line; do
        case $line in
            "[       OK ] "*) ok "${line#*] }" ;;
            "[  FAILED  ] "*ms\)) fail "${line#*] }" ;;
            "[ RUN "* | "["*) ;;
            *) note "$line" ;;
        esac
    done < <("$1" --gtest_filter="$2" 2>&1)
    same "$3 or more tests ran" yes "$([ $((checks - before)) -ge "$3" ] && echo yes)"
}

finish() {
    local status=$?
    [ $status = 0 ] || note "the case ended with status $status"
    echo "1..$checks"
}
trap finish EXIT
