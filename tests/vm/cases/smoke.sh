#!/bin/bash
# real programs die on the stock kernel under systemd: recorded, joined, opened in gdb
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

VICTIMS=$BUILD/tests/victims
INCIDENTS=/var/lib/incidentd/incidents

note "$(uname -srv)"
install_incidentd

if start_incidentd "$SOURCE/systemd/rules.d"; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi
same "the shipped rule is active" active "$(rule_state crash)"

build_id() { # of an ELF file: the first NT_GNU_BUILD_ID note with a SHA-1 in it
    python3 -c '
import sys
d = open(sys.argv[1], "rb").read()
i = d.index(b"\4\0\0\0\x14\0\0\0\3\0\0\0GNU\0") + 16
print(d[i:i + 20].hex())' "$1"
}

committed() { bundle=$(find "$INCIDENTS" -maxdepth 1 -name "[!.]*-$1-*" | head -1) && [ -n "$bundle" ]; }
settled() { [ "$(json 'd["core"].get("pending", False)' "$bundle/incident.json")" = false ]; }
explained() { [ "$(json 'd.get("analysed", False)' "$bundle/incident.json")" = true ]; }
crashed_stack() { json "[t for t in d if t['crashed']][0]['stack']$1" "$bundle/threads.json"; }
# calls of the thread that died, newest last, as "name path"
last_calls() {
    python3 -c '
import json, sys
tid, n = int(sys.argv[2]), int(sys.argv[3])
events = [json.loads(line) for line in open(sys.argv[1] + "/timeline.jsonl")]
calls = [e for e in events if e["tid"] == tid and e["kind"] in ("syscall", "open")]
for e in calls[-n:]:
    print(e["name"], e.get("path") or "")' "$bundle" "$tid" "$1"
}

# dies SIGNAL PROGRAM ARG...: runs it and holds its bundle against what is known of it.
# Leaves bundle, pid, tid (of the thread that died) and said (its output).
dies() {
    local signal=$1 exe
    shift
    what="${1##*/}${2:+ $2}"
    exe=$(readlink -f "$(command -v "$1")")
    "$@" > /tmp/said 2>&1 &
    pid=$!
    wait $pid 2> /dev/null
    said=$(cat /tmp/said)
    if ! incidentctl wait --pid $pid --timeout 300s > /tmp/waited 2>&1 || ! committed $pid; then
        fail "$what: an incident" "$(cat /tmp/waited)" "$(ls -A $INCIDENTS)" "$(daemon_log)"
        return 1
    fi
    ok "$what: an incident"
    within 330 settled || fail "$what: the core is looked for to an end"
    if within 600 explained; then
        ok "$what: explained"
        has "$what: unwound by CFI" '^CFI' "$(crashed_stack '["how"]')"
        has "$what: out to the outermost frame" 'outermost' "$(crashed_stack '["reason"]')"
        has "$what: mini.core opens in gdb" '#1 ' \
            "$(gdb -nx -q -batch "$exe" "$bundle/mini.core" -ex bt 2>&1)"
    else
        fail "$what: explained" "$(incidentctl analyse "$pid" 2>&1 | head -20)"
    fi
    cp -r "$bundle" "$OUT/"
    tid=$(incident 'd["thread"]["tid"]')
    same "$what: signal" "$signal" "$(incident 'd["signal"]["name"]')"
    same "$what: pid" "$pid" "$(incident 'd["process"]["pid"]')"
    same "$what: exe" "$exe" "$(incident 'd["process"]["exe"]')"
    same "$what: build-id" "$(build_id "$exe")" "$(incident 'd["process"]["build_id"]')"
    same "$what: unit" vm-case.service "$(incident 'd["process"]["unit"]')"
    same "$what: complete, nothing lost" "[true, []]" "$(incident '[d["quality"]["complete"], d["quality"]["losses"]]')"
    same "$what: all threads captured" "$(incident 'd["quality"]["threads"]')" \
        "$(json 'sum(1 for t in d if t.get("registers"))' "$bundle/threads.json")"
    same "$what: collectors that failed" '[]' "$(incident '[c for c in d["quality"]["collectors"] if not c["ok"]]')"
    same "$what: core joined" exact "$(incident 'd["core"]["join"]')"
    same "$what: it is coredumpctl's" "$(journalctl COREDUMP_PID=$pid -o json -n 1 | json 'd["COREDUMP_FILENAME"]')" \
        "$(incident 'd["core"]["file"]')"
    same "$what: by its journal entry" "$pid" \
        "$(journalctl --cursor="$(incident 'd["core"]["journal_cursor"]')" -o json -n 1 | json 'd["COREDUMP_PID"]')"
    check "$what: verify" incidentctl verify $pid
}

# shellcheck disable=SC2016 # perl's variables
opens_hostname='open my $f, "<", "/etc/hostname"; my $l = <$f>; kill "SEGV", $$'
if dies SIGSEGV bash -c 'read -r line < /etc/hostname; kill -SEGV $$'; then
    has "$what: opened its file" '^open(at)? /etc/hostname$' "$(last_calls 100)"
    has "$what: the last call" '^kill ' "$(last_calls 1)"
    same "$what: sender" "$pid" "$(incident 'd["signal"]["sender"]["pid"]')"
    has "$what: latest is found" "$(basename "$bundle")" "$(incidentctl --json info latest)"
fi
if dies SIGSEGV perl -e "$opens_hostname"; then
    has "$what: opened its file" '^open(at)? /etc/hostname$' "$(last_calls 100)"
    has "$what: the last call" '^kill ' "$(last_calls 1)"
fi
if dies SIGABRT bash -c 'kill -ABRT $$'; then has "$what: the last call" '^kill ' "$(last_calls 1)"; fi
if python3 -c 'import ctypes' 2> /dev/null && dies SIGSEGV python3 -c 'import ctypes; ctypes.string_at(0)'; then
    same "$what: code" SEGV_MAPERR "$(incident 'd["signal"]["code_name"]')"
    has "$what: opened ctypes" '^openat .*_ctypes.*so$' "$(last_calls 100)"
fi

if [ -x "$VICTIMS/fifty_threads" ]; then
    install -t /usr/local/bin "$VICTIMS/fifty_threads" "$VICTIMS/siblings"
    if dies SIGSEGV fifty_threads; then
        same "$what: the thread that died" "$(sed -n 's/^crash //p' <<< "$said")" "$tid"
        same "$what: every thread by its id" "$(grep -x '[0-9]*' <<< "$said" | sort -n | xargs)" \
            "$(json '"\n".join(str(t["tid"]) for t in d)' "$bundle/threads.json" | sort -n | xargs)"
        shown=$(incidentctl gdb latest -- -batch -ex bt -ex 'incident timeline -n 5' 2>&1 < /dev/null)
        has "gdb: the frames that led to it" '#0 .*settle.*' "$shown"
        has "gdb: and their callers" '#[0-9]+ .* in .*process' "$shown"
        has "gdb: the incident's commands" 'futex|write' "$shown"
    fi
    if dies SIGSEGV siblings 3 2 2 fault; then
        same "$what: futex, read and running threads" '3 2' \
            "$(json '"%d %d" % tuple(sum(1 for t in d if not t["crashed"] and (t.get("syscall") or {}).get("name") == n) for n in ("futex", "read"))' "$bundle/threads.json")"
    fi
else
    skip "programs of many threads" "the victims are not built"
fi

still_up
same "and has lost nothing" '[]' "$(incidentctl --json status | json 'd.get("losses", [])')"
check "stops" systemctl stop incidentd
same "cleanly" success "$(systemctl show -P Result incidentd 2> /dev/null)"
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
