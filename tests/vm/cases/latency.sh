#!/bin/bash
# probed functions are timed, however they are left, on the stock kernel
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -r)"
need "daemon_test" test -x "$BUILD/tests/daemon_test"
need "its victim" test -x "$BUILD/tests/victims/slow"
export INCIDENTD_VICTIMS=$BUILD/tests/victims
unit_tests "$BUILD/tests/daemon_test" 'LatencyKernel.*:LatencyDeadline.*:All/LeftWithoutReturn.*' 11
