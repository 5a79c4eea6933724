"""`python -m tests.kernels KERNEL...`: try the built executable on other kernels.

Each is booted by qemu on this machine's own files, which it sees through 9p and cannot write, and
runs tests/kernels/inside.sh there. KERNEL is a package of Debian's (linux-image-6.1.0-50-amd64),
its .deb, or a folder that one was unpacked to; more packages that belong to it follow after commas.
"""

import argparse
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("CODEX_MULTITOOL_CACHE") or "~/.cache/codex-multitool").expanduser()
NEEDED = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "dpkg-deb")
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
MINUTES = 30
# Emulated unless --kvm: under some hypervisors /dev/kvm is there and boots nothing.
EMULATED = ("-accel", "tcg,thread=multi", "-cpu", "max")
KVM = ("-enable-kvm", "-cpu", "host")

# What the kernel starts: our files below a writable layer in memory, and one script in them.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in $(cat /modules); do insmod $module; done
mkdir -p /host /layer /root
mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host
mount -t tmpfs layer /layer; mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /root
mount -t 9p -o trans=virtio,version=9p2000.L out /root/mnt
for each in proc sys dev; do mount --move /$each /root/$each; done
mkdir -p /root/dev/pts /root/dev/shm
mount -t devpts -o ptmxmode=666,gid=5 pts /root/dev/pts; mount -t tmpfs shm /root/dev/shm
mount -t tmpfs -o mode=1777 tmp /root/tmp; mount -t tmpfs run /root/run
ln -sf /proc/self/fd /root/dev/fd
ip link set lo up
chroot /root /bin/sh /mnt/start >/root/mnt/log 2>&1
echo $? >/root/mnt/status
sync; poweroff -f
"""


class KernelsError(Exception):
    """A kernel cannot be tried, or does not come to its end."""


def main() -> int:
    """Boot each kernel; 0 if what had to hold did on all."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernels", description=__doc__)
    parser.add_argument("kernels", nargs="+", metavar="KERNEL")
    parser.add_argument("--append", default="", help="more words for the kernel's command line")
    parser.add_argument("--tests", default="", help="tests to run there, as words for pytest")
    parser.add_argument("--kvm", action="store_true", help="by /dev/kvm: ten times as fast")
    options = parser.parse_args()
    if lacking := unusable():
        sys.stderr.write(f"skipped: {lacking}\n")
        return 0
    failed = []
    for kernel in options.kernels:
        try:
            status, log = boot(unpacked(kernel), options)
        except (KernelsError, OSError, subprocess.SubprocessError) as error:
            status, log = 1, f"{error}\n"
        sys.stdout.write(f"=== {kernel} {options.append}\n{log}=== {kernel}: {status}\n")
        sys.stdout.flush()
        if status:
            failed.append(kernel)
    return 1 if failed else 0


def unusable() -> str | None:
    """Why no kernel can be booted here."""
    if os.uname().machine != "x86_64":
        return "only x86-64 kernels are booted"
    lacking = [name for name in NEEDED if shutil.which(name, path=_path()) is None]
    return f"{', '.join(lacking)}: not installed" if lacking else None


def _path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def unpacked(kernel: str) -> Path:
    """The folder of a kernel's files, with its modules' dependencies known."""
    if os.path.isdir(kernel):
        return Path(kernel).resolve()
    packages = kernel.split(",")
    folder = CACHE / "kernels" / Path(packages[0]).name.removesuffix(".deb")
    if folder.is_dir():
        return folder
    making = folder.with_suffix(f".{os.getpid()}")
    making.mkdir(parents=True)
    for package in packages:
        archive = Path(package).resolve()
        if not package.endswith(".deb"):
            _run("apt-get", "download", package, cwd=making)
            archive = next(making.glob(f"{package}_*.deb"))
        _run("dpkg-deb", "-x", str(archive), str(making))
    making.rename(folder)
    return folder


def boot(folder: Path, options: argparse.Namespace) -> tuple[int, str]:
    """The exit status of inside.sh there, and what it printed."""
    image = next((path for path in folder.rglob("vmlinuz*") if path.is_file()), None)
    if image is None:
        raise KernelsError(f"{folder} has no kernel")
    with tempfile.TemporaryDirectory(prefix="codex-kernels-") as name:
        place = Path(name)
        out = place / "out"
        out.mkdir()
        script = ROOT / "tests" / "kernels" / "inside.sh"
        (out / "start").write_text(
            f"cd {ROOT} && PYTHON={sys.executable} sh {script} {options.tests}\n"
        )
        _initrd(folder, place)
        command = [
            *("qemu-system-x86_64", *(KVM if options.kvm else EMULATED), "-smp", "2", "-m", "3G"),
            *("-nodefaults", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{place}/console", "-kernel", str(image)),
            *("-initrd", f"{place}/initrd"),
            *("-append", f"console=ttyS0 quiet panic=-1 {options.append}"),
            *_shared("host", "/", "readonly=on,"),
            *_shared("out", str(out), ""),
        ]
        try:
            subprocess.run(command, check=True, timeout=MINUTES * 60, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            console = (place / "console").read_text(errors="replace")[-2000:]
            raise KernelsError(f"it does not end:\n{console}") from None
        if not (out / "status").exists():
            console = (place / "console").read_text(errors="replace")[-2000:]
            raise KernelsError(f"it did not come to its end:\n{console}")
        return int((out / "status").read_text()), (out / "log").read_text(errors="replace")


def _shared(tag: str, path: str, more: str) -> tuple[str, ...]:
    device = f"local,id={tag},path={path},{more}security_model=none,multidevs=remap"
    return ("-fsdev", device, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}")


def _initrd(folder: Path, place: Path) -> None:
    tree = place / "tree"
    for name in ("bin", "proc", "sys", "dev", "lib"):
        (tree / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", tree / "bin" / "busybox")
    (tree / "init").write_text(INIT)
    (tree / "init").chmod(0o755)
    names = []
    for module in _modules(folder, place):
        content = module.read_bytes()
        if module.suffix == ".xz":
            content = lzma.decompress(content)
        names.append(f"/lib/{module.name.removesuffix('.xz')}")
        (tree / names[-1].lstrip("/")).write_bytes(content)
    (tree / "modules").write_text("\n".join(names))
    files = "\0".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
    with open(place / "initrd", "wb") as image:
        command = ("cpio", "--null", "--create", "--format=newc", "--quiet")
        subprocess.run(command, cwd=tree, input=files.encode(), stdout=image, check=True)


def _modules(folder: Path, place: Path) -> list[Path]:
    """The files of MODULES and of what they need, in the order to load them in."""
    versions = next(path for path in folder.rglob("modules") if path.parent.name == "lib")
    version = next(versions.iterdir()).name
    base = place / "base"
    (base / "lib").mkdir(parents=True)
    # depmod writes beside the modules: they are copied, as links to the files.
    shutil.copytree(versions, base / "lib" / "modules", copy_function=os.symlink)
    _run("depmod", "-b", str(base), version)
    found = list[Path]()
    for module in MODULES:
        try:
            told = _run("modprobe", "-d", str(base), "-S", version, "--show-depends", module)
        except KernelsError:
            continue  # it is no module there, but a part of the kernel
        paths = (line.split()[1] for line in told.splitlines() if line.startswith("insmod"))
        found += (path for path in map(Path, paths) if path not in found)
    return found


def _run(*command: str, cwd: Path | None = None) -> str:
    ran = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PATH": _path()},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise KernelsError(f"{' '.join(command)}: {ran.stderr.strip()}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
