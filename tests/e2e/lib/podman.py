"""Containers by podman, of images that are made here: nothing is fetched.

The image has two C libraries beside the host's programs: a glibc and a musl, both without build-ids.
"""

import os
import shutil
import subprocess
from pathlib import Path

from lib.compiled import compiled

IMAGE = "localhost/incidentd-shop:1.4"
LIBC = Path("/lib/x86_64-linux-gnu/libc.so.6")
LOADER = Path("/lib64/ld-linux-x86-64.so.2")
MUSL = Path("/lib/ld-musl-x86_64.so.1")
PROGRAM_FLAGS = ("-O2", "-Wl,--build-id=none")


class Podman:
    def __init__(self, directory):
        """runc: crun refuses hosts that have cgroups of both versions.  Limits: what may be raised differs by host."""
        self.directory = directory
        (directory / "containers.conf").write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=512:512"]\n')
        self.environment = os.environ | {"CONTAINERS_CONF": str(directory / "containers.conf")}
        self.made = []

    def __call__(self, *arguments, check=True):
        return subprocess.run(
            ["podman", "--runtime", "runc", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=check,
        )

    def make_image(self):
        root = self.directory / "root"
        for name in ("bin", "usr", "lib64", "lib/x86_64-linux-gnu", "opt/app", "proc", "sys", "dev", "tmp", "etc", "run"):
            (root / name).mkdir(parents=True)
        shutil.copy("/bin/busybox", root / "bin/busybox")
        for name in ("sh", "cp", "sleep"):
            (root / "bin" / name).symlink_to("busybox")
        for file, name in ((LIBC, LIBC), (LOADER, LOADER), (MUSL, MUSL)):
            without_build_id(file, root / str(name).lstrip("/"))
        shutil.copy(compiled("holes.c", *PROGRAM_FLAGS), root / "opt/app/shop-glibc")
        shutil.copy(compiled("holes.c", *PROGRAM_FLAGS, compiler="musl-gcc"), root / "opt/app/shop-musl")
        archive = self.directory / "image.tar"
        subprocess.run(["tar", "-C", root, "-cf", archive, "."], check=True)
        self("import", "-q", str(archive), IMAGE)

    def run(self, *options, command):
        """Runs to its end; the container stays until remove()."""
        name = f"shop-{os.getpid()}-{len(self.made)}"
        self.made.append(name)
        self("run", "--network", "none", "--name", name, *options, IMAGE, *command, check=False)
        return name

    def remove(self, name):
        self("rm", "-f", "-t", "0", name)
        self.made.remove(name)

    def end(self):
        for name in list(self.made):
            self("rm", "-f", "-t", "0", name, check=False)
        self("rmi", "-f", IMAGE, check=False)


def without_build_id(file, to):
    subprocess.run(
        ["objcopy", "--remove-section", ".note.gnu.build-id", os.path.realpath(file), to], check=True
    )
