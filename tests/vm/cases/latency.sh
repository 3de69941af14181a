#!/bin/bash
# probed functions are timed, however they are left, on the stock kernel
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -r)"
need "daemon_test" test -x "$BUILD/tests/daemon_test"
need "its victim" test -x "$BUILD/tests/victims/slow"
export INCIDENTD_VICTIMS=$BUILD/tests/victims
while IFS= read -r line; do
    case $line in
        "[       OK ] "*) ok "${line#*] }" ;;
        "[  FAILED  ] "*ms\)) fail "${line#*] }" ;;
        "[ RUN "* | "["*) ;;
        *) note "$line" ;;
    esac
done < <("$BUILD/tests/daemon_test" --gtest_filter='LatencyKernel.*:LatencyDeadline.*:All/LeftWithoutReturn.*' 2>&1)
same "some tests ran" yes "$([ $checks -gt 10 ] && echo yes)"
