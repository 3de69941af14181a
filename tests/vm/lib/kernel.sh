# shellcheck shell=bash
# The guest's kernel: which one, its modules, an initramfs, its BTF.
# kernel_pin sets KERNEL_PACKAGE, KERNEL_VERSION, KERNEL_RELEASE; kernel_stage
# sets KERNEL_DIR with vmlinuz, config, initrd.gz and modules/.

# Needed to find and mount the root: they go into the initramfs.
BOOT_MODULES="virtio_pci virtio_blk ext4 crc32c_generic 9p 9pnet_virtio"
# Useful in cases.  The rest of the package's 300 MB is left out.
KEEP_MODULES="loop dm-mod dm-delay dm-flakey scsi_debug sd_mod virtio_console virtio_rng overlay fuse configfs
    autofs4 binfmt_misc null_blk scsi_debug brd tcp_diag inet_diag unix_diag veth dummy"

# kernel_pin KERNEL UPDATE: the archive's newest of that kind moves, so the choice
# is written down once and kept until --update asks again
kernel_pin() {
    local kind=$1 pin=$CACHE/pin-$1 apt=$CACHE/apt from=''
    case $kind in
        6.1) ;;
        backports) from=backports apt=$CACHE/apt-backports ;;
        6.*-amd64) [[ $kind != *deb12* ]] || from=backports apt=$CACHE/apt-backports ;;
        *) die "no kernel $kind: 6.1, backports, or a release as uname -r prints it" ;;
    esac
    if [ ! -s "$pin" ] || [ "$2" = 1 ]; then
        archive_open "$apt" "$from"
        case $kind in
            6.1 | backports)
                KERNEL_PACKAGE=$(archive_apt "$apt" apt-cache depends ${from:+-t "$SUITE-$from"} linux-image-amd64 |
                    sed -n 's/.*Depends: \(linux-image-6[^ ]*-amd64\)$/\1/p' | head -1) ;;
            *) KERNEL_PACKAGE=linux-image-$kind ;;
        esac
        KERNEL_VERSION=$(archive_apt "$apt" apt-cache show --no-all-versions "${KERNEL_PACKAGE:-none}" 2>&1 |
            sed -n 's/^Version: //p')
        [ -n "$KERNEL_VERSION" ] || die "the archive has no kernel package for $kind"
        echo "$KERNEL_PACKAGE $KERNEL_VERSION" > "$pin"
    fi
    read -r KERNEL_PACKAGE KERNEL_VERSION < "$pin"
    KERNEL_APT=$apt KERNEL_FROM=$from
    KERNEL_RELEASE=${KERNEL_PACKAGE#linux-image-}
}

# kernel_stage: made once per package version and recipe
kernel_stage() {
    local key new files=() f
    key=$(cat "$HERE/lib/kernel.sh" "$HERE/guest/init" - <<< "$KERNEL_PACKAGE $KERNEL_VERSION" | sha256sum | cut -c1-12)
    KERNEL_DIR=$CACHE/kernel-$KERNEL_RELEASE-$key
    if [ -d "$KERNEL_DIR" ]; then touch "$KERNEL_DIR"; return; fi
    say "kernel $KERNEL_PACKAGE $KERNEL_VERSION"
    new=$KERNEL_DIR.new
    rm -rf "$new"
    mkdir -p "$new/debs" "$new/all" "$new/modules"
    [ -s "$KERNEL_APT/sources.list" ] || archive_open "$KERNEL_APT" "$KERNEL_FROM"
    (cd "$new/debs" && archive_download "$KERNEL_APT" "$KERNEL_PACKAGE=$KERNEL_VERSION" busybox-static) ||
        die "$KERNEL_PACKAGE $KERNEL_VERSION is not to be had any more: --update takes the newest"
    dpkg-deb -x "$new"/debs/linux-image-*.deb "$new/all"
    cp "$new/all/boot/vmlinuz-$KERNEL_RELEASE" "$new/vmlinuz"
    cp "$new/all/boot/config-$KERNEL_RELEASE" "$new/config"
    depmod -b "$new/all" "$KERNEL_RELEASE"

    local tree=lib/modules/$KERNEL_RELEASE
    # shellcheck disable=SC2086 # lists of names
    mapfile -t files < <(kernel_module_files "$new/all" $BOOT_MODULES $KEEP_MODULES)
    for f in "${files[@]}"; do
        install -D -m 644 "$f" "$new/modules/$tree/${f#*/"$tree"/}"
    done
    # busybox insmod wants them plain; backports kernels have .ko.xz
    find "$new/modules" -name '*.ko.xz' -exec xz -d {} +
    cp "$new/all/$tree"/modules.{order,builtin,builtin.modinfo} "$new/modules/$tree/"
    depmod -b "$new/modules" "$KERNEL_RELEASE"
    kernel_initramfs "$new"
    rm -rf "$new/all" "$new/debs"
    mv "$new" "$KERNEL_DIR"
}

# kernel_module_files TREE MODULE...: files in load order, each once.  Built-in
# ones have none.
kernel_module_files() {
    local tree=$1 m
    shift
    for m in "$@"; do
        modprobe -d "$tree" -S "$KERNEL_RELEASE" --show-depends "$m" 2> /dev/null || say "no module $m" >&2
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

# kernel_initramfs DIR: static busybox, a handful of modules, mount, switch_root;
# boots in a fraction of the time an initramfs-tools one takes
kernel_initramfs() {
    local dir=$1 d=$1/initramfs f n=0 files=()
    mkdir -p "$d"/{bin,dev,proc,sys,root,m}
    dpkg-deb --fsys-tarfile "$dir"/debs/busybox-static_*.deb | tar -xO ./bin/busybox > "$d/bin/busybox"
    # shellcheck disable=SC2086
    mapfile -t files < <(kernel_module_files "$dir/modules" $BOOT_MODULES)
    for f in "${files[@]}"; do
        n=$((n + 1))
        cp "$f" "$d/m/$(printf %02d $n)-${f##*/}"
    done
    install -m 755 "$HERE/guest/init" "$d/init"
    chmod 755 "$d/bin/busybox"
    (cd "$d" && find . | cpio -o -H newc --quiet) | gzip -1 > "$dir/initrd.gz"
    rm -rf "$d"
}

# kernel_btf FILE: raw BTF, the .BTF section of the vmlinux inside vmlinuz
kernel_btf() {
    local image
    image=$(mktemp "$CACHE/vmlinux.XXXXXX")
    kernel_unpack "$KERNEL_DIR/vmlinuz" > "$image"
    objcopy --dump-section ".BTF=$1" "$image" /dev/null || { rm -f "$image"; die "no BTF in $KERNEL_RELEASE"; }
    rm -f "$image"
}

# kernel_unpack VMLINUZ: the ELF inside.  Debian's packages lack
# scripts/extract-vmlinux; the boot protocol's header says where the payload is
# (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).
kernel_unpack() {
    local setup offset length
    setup=$(od -An -tu1 -j $((0x1f1)) -N1 "$1")
    offset=$(od -An -tu4 -j $((0x248)) -N4 "$1")
    length=$(od -An -tu4 -j $((0x24c)) -N4 "$1")
    payload() { tail -c +$(((setup + 1) * 512 + offset + 1)) "$1" | head -c "$((length))"; }
    # Four bytes of length follow the stream: the decompressors complain at the end.
    case $(payload "$1" | head -c 4 | od -An -tx1 | tr -d ' ') in
        fd377a58) payload "$1" | xz -dc --single-stream 2> /dev/null || true ;;
        28b52ffd) payload "$1" | zstd -dcq 2> /dev/null || true ;;
        *) die "$1: neither xz nor zstd inside" ;;
    esac
}
