# shellcheck shell=bash disable=SC2034  # the lists are used by those who source this
# The Debian 12 packages the project needs, and their installation.

BUILD_PACKAGES=(
    g++ cmake ninja-build pkg-config clang llvm bpftool
    libbpf-dev libelf-dev libdw-dev libdebuginfod-dev libzydis-dev libiberty-dev libsystemd-dev libseccomp-dev
    libtoml11-dev libspdlog-dev libfmt-dev libre2-dev libcli11-dev nlohmann-json3-dev libsimdjson-dev
    libarchive-dev zlib1g-dev libssl-dev
    libgtest-dev libgmock-dev
    linux-libc-dev linux-headers-amd64 python3 scdoc gzip
)

# What cpack and the test of the package need.
PACKAGE_PACKAGES=(systemd dpkg-dev binutils dwz rpm lintian man-db groff mandoc bash-completion zsh)

# What a user of the built programs has: a journal, a core-dump handler, a debugger.
RUN_PACKAGES=(systemd systemd-coredump gdb procps util-linux)

# What tests/tidy runs, in the versions that it names.
TIDY_PACKAGES=(clang-tidy-19 clang-format-14 shellcheck)

# What builds the fuzzers, and what makes their seeds.
FUZZ_PACKAGES=(clang-19 libclang-rt-19-dev gcc gdb)

# The programs that the tests watch dying, and what the tests compare against.
TEST_PACKAGES=(
    "${RUN_PACKAGES[@]}"
    python3-pytest python3-pytest-timeout binutils systemtap-sdt-dev strace perl redis-server stress-ng iproute2
    postgresql-15 elfutils debuginfod dwz lldb libc6-dbg python3-prometheus-client
    systemd-journal-remote # makes journals with the entries that a test needs
    libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0
    gcc-multilib g++-multilib # 32-bit programs
    python3-greenlet # coroutines that a program may load at any time
    musl-tools # another C library, without unwind information
    podman runc busybox-static systemd-container # containers, of images that are made here
    golang-go rustc # programs whose calls leave in their own ways: goroutines, panics
)

# What tests/bench measures with: servers and their load, and the tools that record the same.
BENCH_PACKAGES=(
    "${RUN_PACKAGES[@]}" gcc libc6-dev libbpf-dev binutils
    sysbench redis-server redis-tools postgresql-15 nginx-light wrk mariadb-server strace linux-perf bpftrace
    python3-pytest # what starts daemons and servers is the tests'
)

missing_packages() {
    local package
    for package in "$@"; do
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

# Some packages start a service where they can; the tests and benchmarks bring their own.
stop_service() {
    if [ -d /run/systemd/system ]; then
        systemctl disable --now "$1.service"
    elif [ -x "/etc/init.d/$1" ]; then
        "/etc/init.d/$1" stop
    fi
}

# postgresql's package makes a cluster and starts it.
stop_postgresql_service() {
    if [ -d /run/systemd/system ]; then
        systemctl disable --now postgresql.service
    elif command -v pg_ctlcluster >/dev/null; then
        pg_ctlcluster 15 main stop || true # not running: so much the better
    fi
}

# install_packages NAME…: those that are missing, without asking.
install_packages() {
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "installing: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${missing[@]}"
    local service
    for service in redis-server debuginfod nginx mariadb; do
        if [[ " ${missing[*]} " == *" $service"[-\ ]* ]]; then
            stop_service "$service"
        fi
    done
    if [[ " ${missing[*]} " == *" postgresql-15 "* ]]; then
        stop_postgresql_service
    fi
}
