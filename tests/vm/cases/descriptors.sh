#!/bin/bash
# a process with fifty thousand descriptors dies: as many are listed as there is time for, and the bundle says how many
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
COUNT=50000
note "$(uname -srv)"
need "the victim descriptors" test -x "$BUILD/tests/victims/descriptors"
install -t /usr/local/bin "$BUILD/tests/victims/descriptors"
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
settled() { [ "$(incident 'd["core"].get("pending", False)')" = false ]; }
explained() { [ "$(incident 'd.get("analysed", False)')" = true ]; }
ulimit -n $COUNT || { fail "so many are allowed"; exit 0; }

stage "it opens them"
mkfifo /tmp/go
descriptors $COUNT < /tmp/go > /tmp/said 2>&1 &
victim=$!
exec 7> /tmp/go
if ! within 300 grep -q ready /tmp/said; then
    fail "it opens them" "$(cat /tmp/said)"
    exit 0
fi
same "it has as many" $COUNT "$(find /proc/$victim/fd -mindepth 1 | wc -l)"

stage "it dies"
echo >&7
exec 7>&-
check "other programs are recorded meanwhile" incidentctl --json status
bash -c 'kill -SEGV $$' &
other=$!
wait $victim $other 2> /dev/null
stage "it has died"
if ! incident_of "crash-descriptors-$victim" 300; then
    fail "an incident" "$(ls -A /var/lib/incidentd/incidents)" "$(daemon_log)"
    exit 0
fi
ok "an incident"
check "its core is looked for to an end" within 600 settled
same "joined" exact "$(incident 'd["core"]["join"]')"
[ "$(incident 'd["core"]["join"]')" = exact ] || note "$(incident 'd["core"]["reason"]')"
check "explained" within 600 explained

stage "what it had open"
listed=$(wc -l < "$bundle/process/fds")
told=$(incident '[[c["ok"], c["error"] or ""] for c in d["quality"]["collectors"] if c["name"] == "fds"]')
note "$listed listed, told $told, $(stat -c %s "$bundle/process/fds") bytes, in $(incident '[c["us"] for c in d["quality"]["collectors"] if c["name"] == "fds"]') us"
check "some are listed" test "$listed" -ge 60
if [ "$listed" = $COUNT ]; then
    same "and it says that these are all" '[[true, ""]]' "$told"
else
    cut="cut: $listed of (more than [0-9]+|$COUNT) descriptors"
    has "and it says that these are not all" "^\[\[true, \"$cut\"\]\]\$" "$told"
    has "info says so too" "cut fds: $cut" "$(incidentctl info "${bundle##*/}")"
    has "and so does gdb" "not all: $cut" "$(incidentctl gdb "${bundle##*/}" -- -batch -ex 'incident fds' 2>&1 < /dev/null | tail -n 3)"
fi
same "each is named once, by its number" "$listed" "$(python3 -c '
import json, sys
print(len({d["fd"] for d in map(json.loads, open(sys.argv[1])) if d["target"]}))' "$bundle/process/fds")"
for target in /etc/hostname /dev/null 'socket:\[' 'pipe:\['; do
    check "named: $target" grep -q "\"target\":\"$target" "$bundle/process/fds"
done
same "no collector is left behind in them" '[]' \
    "$(incident '[c for c in d["quality"]["collectors"] if "did not return" in (c["error"] or "")]')"
note "not collected: $(incident '[[c["name"], c["error"]] for c in d["quality"]["collectors"] if not c["ok"]]')"
same "the last call" 'read' "$(python3 -c '
import json, sys
calls = [e for e in map(json.loads, open(sys.argv[1])) if e["kind"] in ("syscall", "open")]
print(calls[-1]["name"])' "$bundle/timeline.jsonl")"
has "the call before which there were no more" 'dup\(0.*\) = -1 EMFILE' "$(incidentctl timeline "${bundle##*/}" -n 20)"

stage "the others"
check "the other's incident" incident_of "crash-bash-$other" 300
check "is joined" within 330 settled
same "exactly" exact "$(incident 'd["core"]["join"]')"
still_up
same "nothing was lost" '[]' "$(incidentctl --json status | json 'd.get("losses", [])')"
same "all bundles are whole" '' "$(flawed_bundles)"
check "stops" systemctl stop incidentd
journalctl -u incidentd -o cat > "$OUT/incidentd.log"
