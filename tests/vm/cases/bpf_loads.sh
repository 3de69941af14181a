#!/bin/bash
# the verifier of this kernel takes every BPF program
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -r)"
for name in recorder.linked heap.bpf; do
    object=$BUILD/bpf/$name.o
    need "$name.o" test -s "$object"
    while IFS= read -r line; do
        case $line in
            "ok "*) ok "${line#ok }" ;;
            "not ok "*) fail "${line#not ok }" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done < <(python3 "$SOURCE/tests/vm/guest/bpf_load.py" "$object" 2>&1)
done
