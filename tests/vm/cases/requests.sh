#!/bin/bash
# requests of io_uring are recorded with what they asked, whichever names and layouts this kernel has
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -r)"
need "daemon_test" test -x "$BUILD/tests/daemon_test"
while IFS= read -r line; do
    case $line in
        "[       OK ] "*) ok "${line#*] }" ;;
        "[  FAILED  ] "*ms\)) fail "${line#*] }" ;;
        "[ RUN "* | "["*) ;;
        *) note "$line" ;;
    esac
done < <("$BUILD/tests/daemon_test" --gtest_filter='RequestsInKernel.*' 2>&1)
same "some tests ran" yes "$([ $checks -gt 5 ] && echo yes)"
