#!/bin/bash
# a process with 50,000 descriptors and 100,000 mappings, which not every machine that runs tests allows, crashes
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh
note "$(uname -srv)"
FDS=50000 MAPPINGS=100000
install_incidentd
start_incidentd "$SOURCE/systemd/rules.d" || { fail "starts" "$(daemon_log)"; exit 0; }
sysctl -qw vm.max_map_count=262144
if ulimit -n $((FDS + 1000)); then ok "50,000 descriptors are allowed"; else fail "50,000 descriptors are allowed"; fi

cat > /root/many.py << 'PYTHON'
import ctypes, mmap, os, sys
fds, mappings = map(int, sys.argv[1:])
for _ in range(fds):
    os.dup(0)
one = mmap.mmap(-1, 2 * mappings * mmap.PAGESIZE)
libc = ctypes.CDLL(None)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
start = ctypes.addressof(ctypes.c_char.from_buffer(one))
for i in range(mappings // 2):
    if libc.mprotect(start + 2 * i * mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ):
        sys.exit("mprotect failed")
print(os.getpid(), len(open("/proc/self/maps").readlines()), len(os.listdir("/proc/self/fd")), flush=True)
ctypes.string_at(0)
PYTHON
python3 /root/many.py $FDS $MAPPINGS > /root/said 2> /root/errors
read -r pid maps fds < /root/said || fail "it came to its crash" "$(cat /root/errors)"
note "it had $maps mappings and $fds descriptors"
check "as many as it should" test "$maps" -ge $MAPPINGS -a "$fds" -ge $FDS

if incident_of crash 300; then
    same "its incident" "$pid" "$(incident 'd["process"]["pid"]')"
    check "of a size that can be read ($(du -sk "$bundle" | cut -f1) KiB)" test "$(du -sk "$bundle" | cut -f1)" -le 16384
    of() { incident "next(str(c['ok']) + ' ' + (c['error'] or '') for c in d['quality']['collectors'] if c['name'] == '$1')"; }
    for what in fds maps; do
        listed=$(wc -l < "$bundle/process/$what" 2> /dev/null || echo 0)
        note "$what: $listed listed, $(of $what)"
        wanted=$([ $what = fds ] && echo "$fds" || echo "$maps")
        if [ "$listed" -ge $((wanted - 10)) ]; then ok "$what: all are listed"; else has "$what: what is missing is said" 'cut|deadline|ended|gone' "$(of $what)"; fi
    done
    has "its registers" '^0x[0-9a-f]+$' "$(json 'd[0]["registers"]["rip"]' "$bundle/threads.json")"
    explained() { [ -e "$bundle/analysis.json" ]; }
    check "it is explained" within 300 explained
else
    fail "an incident" "$(daemon_log)"
fi
bash -c 'kill -SEGV $$' &
wait $! 2> /dev/null
if incident_of crash 300; then ok "the next one is recorded as ever"; else fail "the next one is recorded as ever" "$(daemon_log)"; fi
still_up
same "all bundles are whole" '' "$(flawed_bundles)"
