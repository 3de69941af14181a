# shellcheck shell=bash
# The guest's disk: Debian's userland by mmdebstrap, the kept modules, the unit
# that runs a case.  image_make sets IMAGE_DIR with root.qcow2.

# No compiler: programs are built outside and come in by the shares.  python3's
# json and ctypes come with gdb (libpython3.11-stdlib).
IMAGE_PACKAGES=apt,systemd,systemd-sysv,systemd-coredump,dbus,udev,kmod,mount,procps,util-linux
IMAGE_PACKAGES+=,iproute2,dmsetup,e2fsprogs,zstd,bpftool,gdb,python3-minimal
# What incidentd, incidentctl and the victims are linked with.
IMAGE_PACKAGES+=,libbpf1,libelf1,libdw1,libsystemd0,libspdlog1.10,libfmt9,libssl3
IMAGE_PACKAGES+=,libdebuginfod1,libzydis4.0,libsimdjson14,libre2-9
IMAGE_PACKAGES+=,libarchive13,libgcc-s1,libstdc++6

# Nothing of these is needed in a machine that lives for a minute.
IMAGE_MASKED="getty@tty1.service serial-getty@ttyS0.service systemd-networkd.service
    systemd-resolved.service systemd-timesyncd.service dpkg-db-backup.timer e2scrub_all.timer
    e2scrub_reap.service fstrim.timer systemd-update-utmp.service systemd-update-utmp-runlevel.service
    systemd-pstore.service systemd-machine-id-commit.service systemd-firstboot.service
    ldconfig.service systemd-hwdb-update.service systemd-journal-catalog-update.service
    systemd-update-done.service getty.target modprobe@drm.service systemd-logind.service
    systemd-user-sessions.service remote-fs.target modprobe@fuse.service"

# image_make UPDATE
image_make() {
    local key new t0=$SECONDS
    key=$(cat "$HERE/lib/packages.sh" "$HERE/lib/image.sh" "$HERE"/guest/vm-case* - <<< "$KERNEL_DIR" |
        sha256sum | cut -c1-12)
    IMAGE_DIR=$CACHE/image-$KERNEL_RELEASE-$key
    [ "$1" = 0 ] || rm -rf "$IMAGE_DIR"
    if [ -d "$IMAGE_DIR" ]; then touch "$IMAGE_DIR"; return; fi
    say "image for $KERNEL_RELEASE: about a minute"
    new=$IMAGE_DIR.new
    rm -rf "$new"
    mkdir -p "$new"
    image_userland "$new"
    image_configure "$new/root"
    image_pack "$new"
    mv "$new" "$IMAGE_DIR"
    say "image: $(du -h "$IMAGE_DIR/root.qcow2" | cut -f1) in $((SECONDS - t0)) s"
}

image_userland() {
    local dir=$1
    archive_sources > "$dir/sources.list"
    archive_settings > "$dir/apt.conf"
    # essential: without apt; no documentation, locales, recommended packages
    mmdebstrap --quiet --mode=root --variant=essential --format=directory \
        --include="$IMAGE_PACKAGES" --aptopt="$dir/apt.conf" \
        --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/i18n/*' \
        --dpkgopt='path-exclude=/usr/lib/udev/hwdb.d/*' \
        "$SUITE" "$dir/root" "$dir/sources.list" > "$dir/mmdebstrap.log" 2>&1 < /dev/null ||
        { cat "$dir/mmdebstrap.log" >&2; die "mmdebstrap failed"; }
}

image_configure() {
    local r=$1 unit
    cp -a "$KERNEL_DIR/modules/lib/modules" "$r/lib/"
    install -D -m 644 "$KERNEL_DIR/config" "$r/boot/config-$KERNEL_RELEASE"
    install -D -m 755 "$HERE/guest/vm-case" "$r/usr/local/sbin/vm-case"
    install -D -m 644 "$HERE/guest/vm-case.service" "$r/etc/systemd/system/vm-case.service"
    mkdir -p "$r/etc/systemd/system/multi-user.target.wants" "$r/host"
    ln -s ../vm-case.service "$r/etc/systemd/system/multi-user.target.wants/"
    ln -sf /lib/systemd/system/multi-user.target "$r/etc/systemd/system/default.target"
    for unit in $IMAGE_MASKED; do ln -sf /dev/null "$r/etc/systemd/system/$unit"; done
    echo vm > "$r/etc/hostname"
    : > "$r/etc/fstab"
    : > "$r/etc/resolv.conf"
    echo 0123456789abcdef0123456789abcdef > "$r/etc/machine-id" # no first-boot work
    rm -rf "$r"/var/cache/apt/* "$r"/var/lib/apt/lists/* "$r"/var/log/*.log "$r/usr/lib/udev/hwdb.bin"
    # gdb does not start without UTF-16 and UTF-32; the other 250 converters are 8 MB
    find "$r/usr/lib/x86_64-linux-gnu/gconv" -name '[A-Z]*.so' ! -name 'UTF*' -delete
}

# image_pack DIR: DIR/root becomes a compressed qcow2, which QEMU boots as it is
# (decompression runs natively, not emulated)
image_pack() {
    local dir=$1 mb
    mb=$(($(du -sm --apparent-size "$dir/root" | cut -f1) * 3 / 2 + 6144)) # incidentd keeps 1 GiB free by default
    truncate -s ${mb}M "$dir/root.raw"
    # lazy_itable_init=0: no zeroing in the background of the guest; no journal: it is thrown away
    mkfs.ext4 -q -F -O ^has_journal -E lazy_itable_init=0,root_owner=0:0 -m 0 -d "$dir/root" "$dir/root.raw"
    qemu-img convert -q -c -O qcow2 -o compression_type=zstd,cluster_size=65536 "$dir/root.raw" "$dir/root.qcow2"
    rm -rf "$dir/root.raw" "$dir/root"
}
