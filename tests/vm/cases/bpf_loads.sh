#!/bin/bash
# the verifier of this kernel takes every BPF program
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

object=$BUILD/bpf/recorder.linked.o
note "$(uname -r)"
need "recorder.linked.o" test -s "$object"
while IFS= read -r line; do
    case $line in
        "ok "*) ok "${line#ok }" ;;
        "not ok "*) fail "${line#not ok }" ;;
        *) printf '%s\n' "$line" ;;
    esac
done < <(python3 "$SOURCE/tests/vm/guest/bpf_load.py" "$object" 2>&1)
