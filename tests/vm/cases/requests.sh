#!/bin/bash
# requests of io_uring are recorded with what they asked, whichever names and layouts this kernel has
# kernels: 6.1 backports
# shellcheck source=tests/vm/lib/case.sh
. /host/lib.sh

note "$(uname -r)"
need "daemon_test" test -x "$BUILD/tests/daemon_test"
unit_tests "$BUILD/tests/daemon_test" 'RequestsInKernel.*' 6
