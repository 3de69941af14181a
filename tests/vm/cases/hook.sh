#!/bin/bash
# each incident starts a unit of its own, which has the bundle and little else
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

install_incidentd
mkdir -p /etc/incidentd
cat > /etc/incidentd/on-incident << 'HOOK'
#!/bin/bash
echo "handed on: $INCIDENT_ID"
cp -r "$INCIDENT_BUNDLE" . || exit 1
touch /etc/incidentd/written 2> /dev/null && echo "could write to /etc"
rm -r "$INCIDENT_BUNDLE" 2> /dev/null && echo "could remove the bundle"
grep -i ^capeff /proc/self/status
HOOK
chmod 755 /etc/incidentd/on-incident

if start_incidentd "$SOURCE/systemd/rules.d" 's/^#unit = .*/unit = "incident-hook@.service"/; s/^#per_hour = .*/per_hour = 3/'; then
    ok "starts as a unit"
else
    fail "starts as a unit" "$(incidentctl status 2>&1)" "$(daemon_log)"
    exit 0
fi

hook_log() { journalctl -o cat -u "$(systemd-escape --template=incident-hook@.service "$name")"; }
over() { hook_log | grep -qi ^capeff; }
crash() { # sets name
    local pid
    bash -c 'kill -SEGV $$' &
    pid=$!
    wait $pid 2> /dev/null
    name=$(incidentctl wait --pid $pid --timeout 300s)
}

crash
first=$name
if within 300 over; then ok "the unit ran"; else fail "the unit ran" "$(hook_log)" "$(daemon_log)"; fi
has "it knows the incident" "^handed on: $name$" "$(hook_log)"
same "whole" "$(sha256sum < "/var/lib/incidentd/incidents/$name/MANIFEST")" \
    "$(sha256sum < "/var/lib/incident-hook/$name/MANIFEST")"
same "and explained by then" true "$(json 'd["analysed"]' "/var/lib/incident-hook/$name/incident.json")"
same "it could change nothing" '' "$(hook_log | grep 'could ')"
same "with one capability" 'CapEff:	0000000000000004' "$(hook_log | grep -i ^capeff)"
check "the incident is still there" incidentctl verify "$name"
same "status counts it" '[1, 0, 0]' \
    "$(incidentctl --json status | json '[d["hook"][k] for k in ("started", "failed", "suppressed")]')"

chmod 644 /etc/incidentd/on-incident
crash
counted() { [ "$(incidentctl --json status | json "d['hook']['$1']")" = "$2" ]; }
if within 300 counted started 2; then ok "without a program"; else fail "without a program" "$(daemon_log)"; fi
has "the unit is skipped and says why" 'ConditionFileIsExecutable' "$(hook_log)"
chmod 755 /etc/incidentd/on-incident
crash
crash
if within 300 counted suppressed 1; then ok "no more than per_hour"; else fail "no more than per_hour" "$(daemon_log)"; fi
same "the others were started" true "$(counted started 3 && echo true)"
has "and status says so" 'handed to incident-hook@.service: 3, 0 failed, 1 beyond' "$(incidentctl status)"

# [access] group under the same unit
printf '%s\n' 'u member -' 'm member incident' 'u stranger -' | systemd-sysusers /usr/lib/sysusers.d/incidentd.conf -
systemctl stop incidentd
if start_incidentd "$SOURCE/systemd/rules.d" 's/^#group = .*/group = "incident"/'; then
    ok "starts with a group"
else
    fail "starts with a group" "$(daemon_log)"
    exit 0
fi
crash
reads() { setpriv --reuid="$1" --regid="$1" --init-groups incidentctl verify "$name"; }
check "a member reads an incident" reads member
check "also those from before" setpriv --reuid=member --regid=member --init-groups incidentctl verify "$first"
if reads stranger > /dev/null 2>&1; then fail "a stranger reads none"; else ok "a stranger reads none"; fi
same "the directory" '2750 root incident' "$(stat -c '%a %U %G' "/var/lib/incidentd/incidents/$name")"
