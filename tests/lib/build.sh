# shellcheck shell=bash
# Configures and builds the project.

SOURCE_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD_DIR=${BUILD_DIR:-$SOURCE_DIR/build}

# build [--targets "NAME…"] DIR [CMAKE ARG…]
build() {
    local -a targets=()
    if [ "$1" = --targets ]; then
        read -ra targets <<<"$2"
        shift 2
    fi
    local dir=$1
    shift
    cmake -S "$SOURCE_DIR" -B "$dir" -G Ninja "$@" && cmake --build "$dir" --target "${targets[@]:-all}"
}

# build_programs DIR: incidentd and incidentctl, no test
build_programs() {
    cmake -S "$SOURCE_DIR" -B "$1" -G Ninja && cmake --build "$1" --target incidentd incidentctl
}

# Where the build puts what the tests run.
use_build() {
    export INCIDENTD_BIN=$1/daemon/incidentd
    export INCIDENTCTL_BIN=$1/postmortem/incidentctl
    export VICTIMS_DIR=$1/tests/victims
}

require_root() {
    if [ "$(id -u)" != 0 ]; then
        echo "$0: needs root: it installs packages, loads BPF programs and makes processes dump core" >&2
        exit 2
    fi
}
