#!/bin/bash
# the .deb under a real systemd: installed, used, upgraded while it records, removed, purged
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

# What a person sees goes to $OUT/session.txt as well: the session of tests/vm/README.md is made of it.
INCIDENTS=/var/lib/incidentd/incidents
CONFIG=/etc/incidentd/incidentd.toml
MESSAGE=0b1ca4f5d0f44a3c9d8f2d7e61c05ba7

note "$(uname -srv)"
built=$(find "$BUILD/package" -maxdepth 1 -name 'incidentd_*.deb' 2> /dev/null)
if [ -z "$built" ]; then
    skip "the .deb" "not built: cpack -G DEB -B package in the build directory, or tests/run package"
    exit 0
elif [ "$BUILD/daemon/incidentd" -nt "$built" ] || [ "$BUILD/postmortem/incidentctl" -nt "$built" ]; then
    skip "the .deb" "older than the programs: cpack -G DEB -B package in the build directory, or tests/run package"
    exit 0
fi
mkdir /tmp/packages # where apt's own user may read it
cd /tmp/packages || exit
cp "$built" .
deb=$(echo incidentd_*.deb)
version=$(dpkg-deb -f "$deb" Version)

# The next version: with another default in its configuration.
dpkg-deb -R "$deb" next
sed -i "s/^Version: .*/Version: $version+1/" next/DEBIAN/control
echo '# new in this version' >> next$CONFIG
dpkg-deb -Znone -b next "incidentd_${version}+1_amd64.deb" > /dev/null
cat > /etc/apt/apt.conf.d/99case << 'APT'
APT::Cmd::Disable-Script-Warning "1";
DPkg::Use-Pty "0";
DPkg::Options { "--force-confold"; };
APT

# said COMMAND: as typed; prints and keeps what it says; its status
said() {
    local status=0
    echo "# $1" >> "$OUT/session.txt"
    bash -c "$1" > /tmp/said 2>&1 || status=$?
    cat /tmp/said >> "$OUT/session.txt"
    echo >> "$OUT/session.txt"
    return $status
}
# does WHAT COMMAND: it must succeed
does() { if said "$2"; then ok "$1"; else fail "$1" "$(cat /tmp/said)" "$(journalctl -u incidentd -n 40 -o cat)"; fi; }
unit() { systemctl show -P "$1" incidentd; }
mode() { stat -c '%a %U:%G' "$1"; }
listed() { incidentctl --json list | wc -l; }

# ---- installed: the group, the directories, the catalog; nothing runs
same "the catalog does not know it yet" '' "$(journalctl --dump-catalog $MESSAGE 2> /dev/null)"
does "apt install ./$deb" "apt install -y ./$deb"
same "not enabled" disabled "$(systemctl is-enabled incidentd)"
same "not started" inactive "$(systemctl is-active incidentd)"
same "nor is any other unit of it" '' "$(systemctl list-units --plain --no-legend 'incident*')"
has "the group, without members" '^incident:x:[0-9]+:$' "$(getent group incident)"
same "the state is root's" '700 root:root' "$(mode /var/lib/incidentd)"
same "and so are the incidents" '700 root:root' "$(mode $INCIDENTS)"
has "systemd's trigger has taken the catalog" 'Incident recorded' "$(journalctl --dump-catalog $MESSAGE)"
check "the units verify" systemd-analyze --man=no verify "$(unit FragmentPath)"

# ---- used.  Emulation is slow: what takes a time limit gets more of it.
sed -i 's/^#core_wait = .*/core_wait = "5m"/' $CONFIG
mkdir -p /etc/systemd/system/incidentd.service.d
printf '[Service]\nTimeoutStartSec=5min\nWatchdogSec=5min\n' > /etc/systemd/system/incidentd.service.d/slow.conf
does "started as the documentation says" "systemctl enable --now incidentd"
same "it is up" 'active enabled' "$(unit ActiveState) $(systemctl is-enabled incidentd)"

# crash NAME: as a unit; sets id, bundle and pid
recorded() {
    id=$(incidentctl --json list | python3 -c '
import json, sys
print(*(d["id"] for d in map(json.loads, sys.stdin) if d["unit"] == sys.argv[1]))' "$1.service")
    [ -n "$id" ]
}
crash() {
    said "systemd-run --quiet --wait --unit=$1 python3 -c 'import ctypes; open(\"/etc/hostname\").read(); ctypes.string_at(0)'"
    if ! within 300 recorded "$1"; then
        fail "an incident of $1" "$(incidentctl list 2>&1)" "$(journalctl -u incidentd -n 40 -o cat)"
        return 1
    fi
    bundle=$INCIDENTS/$id
    pid=$(json 'd["process"]["pid"]' "$bundle/incident.json")
    ok "an incident of $1"
}
told() { [ -n "$(journalctl -q "INCIDENT_ID=$id" -o cat)" ]; }
explained() { [ "$(json 'd.get("analysed", False)' "$bundle/incident.json")" = true ]; }

crash myapp || exit 0
first=$id
if within 400 told && within 400 explained; then ok "the journal has it"; else fail "the journal has it" "$(journalctl -u incidentd -n 40 -o cat)"; fi
does "journalctl -x" "journalctl --no-pager -q -x -u myapp -o short"
has "names the incident" "Subject: Incident recorded" "$(cat /tmp/said)"
has "and says what to do" "incidentctl info $id" "$(cat /tmp/said)"
does "coredumpctl" "coredumpctl --no-pager info $pid"
has "has the core" 'Storage: .*core.python3' "$(cat /tmp/said)"
has "and the incident" "$id" "$(cat /tmp/said)"
does "incidentctl info" "incidentctl info"
has "tells what happened" 'python3\[[0-9]+\] \(myapp\.service\) was killed by SIGSEGV' "$(cat /tmp/said)"
has "and what that comes of" 'null dereference' "$(cat /tmp/said)"
does "incidentctl timeline" "incidentctl timeline -n 6"
has "has the last file" '/etc/hostname' "$(incidentctl timeline)"
does "incidentctl gdb" "incidentctl gdb latest -- -batch -ex 'bt 3'"
has "opens the core" 'Program terminated with signal SIGSEGV' "$(cat /tmp/said)"
has "with what led to it" "Incident +$id" "$(cat /tmp/said)"

# ---- upgraded while it records
before=$(unit MainPID)
does "apt install of the next version" "apt install -y ./incidentd_${version}+1_amd64.deb"
same "is that version" "$version+1" "$(dpkg-query -W -f '${Version}' incidentd)"
if within 300 incidentctl --json status; then ok "records again"; else fail "records again" "$(journalctl -u incidentd -n 40 -o cat)"; fi
if [ "$(unit MainPID)" != "$before" ] && [ "$(unit ActiveState)" = active ]; then
    ok "restarted"
else
    fail "restarted" "was $before, is $(unit MainPID) $(unit ActiveState)"
fi
has "the changed configuration stays" '^core_wait = "5m"' "$(cat $CONFIG)"
has "the new one stands beside it" 'new in this version' "$(cat $CONFIG.dpkg-dist)"
check "old incidents are whole" incidentctl verify "$first"
check "and readable" incidentctl info "$first"
crash after-upgrade
same "both are there" 2 "$(listed)"

# ---- what does not run is not started by an upgrade
systemctl stop incidentd
check "apt install --reinstall" apt install -y --reinstall "./incidentd_${version}+1_amd64.deb"
same "stays stopped" inactive "$(unit ActiveState)"
systemctl start incidentd

# ---- removed
does "apt remove" "apt remove -y incidentd"
same "the unit is stopped and gone" 'inactive not-found' "$(unit ActiveState) $(unit LoadState)"
same "no process of it is left" '' "$(pgrep -x incidentd)"
same "no program of it is left" '' "$(find /usr/bin/incidentctl /usr/sbin/incidentd 2> /dev/null)"
same "the incidents stay" 2 "$(find $INCIDENTS -mindepth 1 -maxdepth 1 -name '[!.]*' | wc -l)"
has "the configuration stays" '^core_wait = "5m"' "$(cat $CONFIG)"
same "the catalog has forgotten it" '' "$(journalctl --dump-catalog $MESSAGE 2> /dev/null)"

# ---- purged
does "apt purge" "apt purge -y incidentd"
same "nothing is left" '' "$(find /etc/incidentd /var/lib/incidentd /usr/share/incidentd /etc/systemd/system/multi-user.target.wants/incidentd.service 2> /dev/null)"
same "nor the group" '' "$(getent group incident)"
