# shellcheck shell=bash
# OpenZFS for the guest's kernel: modules built here, programs from Debian's packages.
# Nothing of it touches the host: zfs-dkms installed there would build for, and be
# loaded into, the host's own kernel.
# zfs_pin sets ZFS_VERSION and ZFS_DIR, which zfs_make fills with plain/, btf/ (modules
# without and with BTF) and debs/; zfs_tree lays it out as cases see it.

# zfs_pin KERNEL UPDATE: like kernel_pin; fails where there is no choice yet and UPDATE
# is "never"
zfs_pin() {
    local pin=$CACHE/pin-zfs-$1 from=${KERNEL_FROM:+-t $SUITE-$KERNEL_FROM}
    ZFS_APT=$CACHE/apt-contrib${KERNEL_FROM:+-$KERNEL_FROM}
    if [ "$2" != never ] && { [ ! -s "$pin" ] || [ "$2" = 1 ]; }; then
        archive_open "$ZFS_APT" contrib "$KERNEL_FROM"
        # shellcheck disable=SC2086 # an option and its value, or nothing
        ZFS_VERSION=$(archive_apt "$ZFS_APT" apt-cache show --no-all-versions $from zfs-dkms |
            sed -n 's/^Version: //p')
        [ -n "$ZFS_VERSION" ] || die "the archive has no zfs-dkms"
        echo "$ZFS_VERSION" > "$pin"
    fi
    [ -s "$pin" ] || return 1
    read -r ZFS_VERSION < "$pin"
    ZFS_DIR=$CACHE/zfs-$ZFS_VERSION-$KERNEL_RELEASE-$(cat "$HERE/lib/zfs_build" - <<< "$KERNEL_VERSION" |
        sha256sum | cut -c1-12)
}

# zfs_make: made once per kernel and ZFS version
zfs_make() {
    local new=$ZFS_DIR.new t0=$SECONDS
    if [ -d "$ZFS_DIR" ]; then touch "$ZFS_DIR"; return; fi
    say "ZFS $ZFS_VERSION for $KERNEL_RELEASE: about five minutes"
    rm -rf "$new"
    mkdir -p "$new"
    [ -s "$ZFS_APT/sources.list" ] || archive_open "$ZFS_APT" contrib "$KERNEL_FROM"
    zfs_packages "$new/debs"
    archive_settings > "$new/apt.conf"
    mmdebstrap --quiet --mode=root --variant=essential --format=directory \
        --include="linux-headers-$KERNEL_RELEASE=$KERNEL_VERSION,gcc,make,libc6-dev,pahole,gawk" \
        --aptopt="$new/apt.conf" --aptopt='Acquire::Languages "none"' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        "$SUITE" "$new/chroot" "$ZFS_APT/sources.list" > "$new/mmdebstrap.log" 2>&1 < /dev/null ||
        { cat "$new/mmdebstrap.log" >&2; die "no toolchain: where the kernel is gone from the archive, --update takes the newest"; }
    say "toolchain: $((SECONDS - t0)) s"
    dpkg-deb -x "$new"/debs/zfs-dkms_*.deb "$new/chroot"
    rm "$new"/debs/zfs-dkms_*.deb
    kernel_unpack "$KERNEL_DIR/vmlinuz" > "$new/chroot/vmlinux"
    install -m 755 "$HERE/lib/zfs_build" "$new/chroot/zfs_build"
    chroot "$new/chroot" /zfs_build "$KERNEL_RELEASE" > "$new/build.log" 2>&1 < /dev/null ||
        { tail -n 30 "$new/build.log" >&2; die "building ZFS failed: $new/build.log"; }
    mv "$new/chroot/out"/* "$new/"
    rm -rf "$new/chroot"
    mv "$new" "$ZFS_DIR"
    say "ZFS modules: $((SECONDS - t0)) s"
}

# zfs_packages DIR: the source, the programs, and the libraries of the same version that
# they are linked with (their names count the ABI); the rest the image has for gdb
zfs_packages() {
    local names
    mapfile -t names < <(archive_apt "$ZFS_APT" apt-cache depends "zfsutils-linux=$ZFS_VERSION" |
        sed -n 's/^ *Depends: \(lib[a-z0-9]*linux\)$/\1/p')
    names+=(zfsutils-linux zfs-dkms)
    mkdir -p "$1"
    (cd "$1" && archive_download "$ZFS_APT" "${names[@]/%/=$ZFS_VERSION}") ||
        die "ZFS $ZFS_VERSION is not to be had any more: --update takes the newest"
}

# zfs_tree DIR: what a case copies over its root: programs, libraries, modules with their
# dependencies worked out; the modules with BTF beside them, in usr/local/lib/zfs-btf
zfs_tree() {
    local dir=$1 modules=$1/usr/lib/modules/$KERNEL_RELEASE deb
    mkdir -p "$dir/unpacked" "$dir/usr/sbin" "$dir/usr/lib/x86_64-linux-gnu" "$dir/usr/local/lib/zfs-btf" "$dir/lib"
    for deb in "$ZFS_DIR"/debs/*.deb; do dpkg-deb -x "$deb" "$dir/unpacked"; done
    find "$dir/unpacked" -path '*/sbin/*' \( -name zpool -o -name zfs -o -name zdb \) -exec cp {} "$dir/usr/sbin/" \;
    find "$dir/unpacked" -name 'lib*.so.*' -exec cp -a {} "$dir/usr/lib/x86_64-linux-gnu/" \;
    cp -a "$KERNEL_DIR/modules/lib/modules" "$dir/lib/"
    install -D -m 644 -t "$dir/lib/modules/$KERNEL_RELEASE/extra" "$ZFS_DIR"/plain/*.ko
    depmod -b "$dir" "$KERNEL_RELEASE"
    mkdir -p "$modules"
    mv "$dir/lib/modules/$KERNEL_RELEASE"/{extra,modules.*} "$modules/"
    cp "$ZFS_DIR"/btf/*.ko "$dir/usr/local/lib/zfs-btf/"
    rm -rf "${dir:?}/unpacked" "${dir:?}/lib"
}
