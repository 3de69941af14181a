# shellcheck shell=bash
# The machine: QEMU, booted once and saved; each case goes on from the saved state on
# disks of its own.  Software emulation unless --accel kvm asks: inside other virtual
# machines /dev/kvm can open, start a guest, and hang at its first instructions, so no
# cheap probe tells whether it works.

QEMU_PID=''

# qemu_fit SCRIPT: the machine that a case's header asks for ("# memory: MB", "# disks: N"),
# else the one of the options
qemu_fit() {
    GUEST_MEMORY=$(case_header "$1" memory)
    GUEST_MEMORY=${GUEST_MEMORY:-$MEMORY}
    GUEST_DISKS=$(case_header "$1" disks)
    GUEST_DISKS=${GUEST_DISKS:-1}
}

# qemu_machine DIR ARG...: on the disks and shares in DIR.  The devices are always
# the same, so that a saved state fits; la57=off: five-level tables are slow to emulate.
#
# thread=single: the guest's processors take turns on one of ours. Emulated side by side (QEMU 7.2), one may go on executing
# an int3 that the kernel has put into its code and taken out again, as it does for every tracepoint and static key that is
# switched: all of them hang for ever. Seen in bpf_trace_run2(), guest memory long patched.
qemu_machine() {
    local dir=$1
    shift
    local nine=security_model=none,multidevs=remap disks=() n
    for ((n = 1; n <= GUEST_DISKS; n++)); do
        disks+=(-drive "file=$dir/disk$n.qcow2,if=virtio,format=qcow2,cache=unsafe")
    done
    exec qemu-system-x86_64 -nodefaults -no-user-config -display none -no-reboot \
        -machine q35 -accel "${ACCEL/#tcg/tcg,thread=single,tb-size=512}" -cpu max,la57=off -smp "$CPUS" -m "$GUEST_MEMORY" \
        -kernel "$KERNEL_DIR/vmlinuz" -initrd "$KERNEL_DIR/initrd.gz" \
        -append "console=ttyS0 root=/dev/vda rw panic=-1 quiet loglevel=4 mitigations=off nokaslr tsc=reliable no_timer_check random.trust_cpu=on systemd.show_status=0 $append" \
        -drive "file=$dir/root.qcow2,if=virtio,format=qcow2,cache=unsafe" \
        "${disks[@]}" \
        -virtfs "local,path=$dir/host,mount_tag=host,$nine" \
        -virtfs "local,path=$dir/build,mount_tag=build,readonly=on,$nine" \
        -virtfs "local,path=$dir/source,mount_tag=source,readonly=on,$nine" \
        -virtfs "local,path=$dir/install,mount_tag=install,readonly=on,$nine" \
        -virtfs "local,path=$dir/zfs,mount_tag=zfs,readonly=on,$nine" \
        -device virtio-rng-pci -serial "file:$dir/console.log" "$@"
}

# qemu_disks DIR: the root as vda, empty ones from vdb on; everything the guest writes
# goes to throw-away files; writable disks must be qcow2 for savevm
qemu_disks() {
    local n
    qemu-img create -q -f qcow2 -b "$IMAGE_DIR/root.qcow2" -F qcow2 "$1/root.qcow2"
    for ((n = 1; n <= GUEST_DISKS; n++)); do qemu-img create -q -f qcow2 "$1/disk$n.qcow2" 512M; done
}

# What a saved state depends on beside the image: the way it is made, and the machine.
qemu_state_name() {
    echo "booted-${GUEST_MEMORY}M-${CPUS}cpu-${GUEST_DISKS}disk-$ACCEL-$({
        qemu-system-x86_64 --version | head -1
        cat "$HERE/lib/qemu.sh"
    } | sha256sum | cut -c1-12)"
}

# qemu_snapshot: boot once, stop just before the case, save the machine
qemu_snapshot() {
    local dir append=vm.wait t0=$SECONDS monitor saved=0
    SAVED=$IMAGE_DIR/$(qemu_state_name)
    if [ -d "$SAVED" ]; then touch "$SAVED"; return; fi
    dir=$SAVED.new
    rm -rf "$dir" # of a run that was killed
    mkdir -p "$dir"/{host,build,source,install,zfs}
    qemu_disks "$dir"
    mkfifo "$dir/monitor"
    (qemu_machine "$dir" -serial null -monitor stdio) < "$dir/monitor" > "$dir/qemu.log" 2>&1 &
    QEMU_PID=$!
    exec {monitor}> "$dir/monitor"
    while kill -0 $QEMU_PID 2> /dev/null && [ $((SECONDS - t0)) -lt "$TIMEOUT" ]; do
        if grep -qs VM-READY "$dir/console.log"; then
            sleep 1 # lets the guest reach its read of the serial port
            printf 'savevm booted\nquit\n' >&"$monitor"
            wait $QEMU_PID && saved=1
            break
        fi
        sleep 0.5
    done
    exec {monitor}>&-
    qemu_stop
    if [ $saved = 0 ] || grep -qi '^error' "$dir/qemu.log"; then
        tail -v -n 40 "$dir/console.log" "$dir/qemu.log" >&2
        rm -rf "$dir"
        die "the machine did not come up, or could not be saved"
    fi
    rm "$dir/monitor"
    mv "$dir" "$SAVED"
    say "booted and saved: $(du -h "$SAVED/root.qcow2" | cut -f1) in $((SECONDS - t0)) s"
}

# qemu_case SCRIPT DIR LIMIT: runs it for at most so many seconds, its output copied to ours.  Status: the script's,
# 124 when the limit passed, 125 when the guest ended without one (panic, power cut).
qemu_case() {
    local script=$1 dir=$2 limit=$3 append='' args=(-serial null) t0=$SECONDS how=booted status=125 tail_pid
    mkdir -p "$dir/host/out"
    ln -s "$BUILD_DIR" "$dir/build"
    ln -s "$REPO" "$dir/source"
    ln -s "$WORK/install" "$dir/install"
    ln -s "$WORK/zfs" "$dir/zfs"
    cp "$script" "$dir/host/case.sh"
    cp "$HERE/lib/case.sh" "$dir/host/lib.sh"
    : > "$dir/host/output"
    if [ "$SNAPSHOT" = 1 ]; then
        SAVED=$IMAGE_DIR/$(qemu_state_name)
        cp --reflink=auto "$SAVED"/*.qcow2 "$dir/"
        append=vm.wait args=(-loadvm booted -serial stdio) how=restored
    else
        qemu_disks "$dir"
    fi
    date +%s.%N > "$dir/host/now"
    (qemu_machine "$dir" "${args[@]}") > "$dir/qemu.log" 2>&1 < <(
        while [ $how = restored ] && [ -d "$dir/host" ] && [ ! -e "$dir/host/started" ]; do
            echo go
            sleep 0.3
        done
    ) &
    QEMU_PID=$!
    tail -n +1 -s 0.2 -f --pid=$QEMU_PID "$dir/host/output" &
    tail_pid=$!
    if [ "$VERBOSE" = 1 ]; then
        (while [ ! -e "$dir/console.log" ]; do sleep 0.1; done
         exec tail -n +1 -f --pid=$QEMU_PID "$dir/console.log" >&2) &
    fi
    while kill -0 $QEMU_PID 2> /dev/null; do
        if [ $((SECONDS - t0)) -ge "$limit" ]; then
            status=124
            kill $QEMU_PID 2> /dev/null || true
            break
        fi
        sleep 0.2
    done
    wait $QEMU_PID 2> /dev/null || true
    QEMU_PID=''
    wait $tail_pid 2> /dev/null || true
    [ ! -s "$dir/host/status" ] || status=$(cat "$dir/host/status")
    say "$(basename "$script" .sh): $how, $((SECONDS - t0)) s, status $status"
    return "$status"
}

qemu_stop() {
    [ -z "$QEMU_PID" ] || kill "$QEMU_PID" 2> /dev/null || true
    QEMU_PID=''
}
