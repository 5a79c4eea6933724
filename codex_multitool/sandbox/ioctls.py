"""Which ioctls are refused — pure.

ioctl(2) asks for no descriptor open for writing, and Landlock (ABI 5) looks at those of devices
alone. File systems change things by it all the same: btrfs makes a whole subvolume in a directory
that is open for reading, OCFS2 a file by its path. So their types are refused as a whole, but for
what only tells something, or writes through a descriptor open for writing. Other types belong to
devices, terminals, sockets and the kernel's own objects (userspace-api/ioctl/ioctl-number).
"""

# A type and a number of it, all other bits apart: linux/ioctl.h.
TYPE_MASK = 0xFF00

REFUSED = (
    0x5412,  # TIOCSTI: types into a terminal
    0x541C,  # TIOCLINUX: pastes into a console
    0x40087602,  # FS_IOC_SETVERSION: the generation of any file of the user's
    0x40047211,  # FAT_IOCTL_SET_ATTRIBUTES
)

# File systems whose ioctls change files for their owner. Those of others (NILFS2, GFS2, UDF, HFS+)
# take CAP_SYS_ADMIN, which nobody has in here. NILFS2's type is that of other drivers, too.
FILE_SYSTEMS = (
    0x6600,  # 'f': flags, encryption, verity; ext4, which moves extents; Lustre
    0x5800,  # 'X': XFS, extended flags, freezing
    0x6F00,  # 'o': OCFS2, which makes reflinks by path
    0x8300,  # ZFS
    0x9400,  # btrfs, and what all took over from it
    0x9700,  # Ceph
    0xBC00,  # bcachefs
    0xCD00,  # ReiserFS
    0xCF00,  # CIFS
    0xF500,  # F2FS, whose atomic writes asked for no writable descriptor before Linux 6.12
)

HARMLESS = (
    0x80086601,  # FS_IOC_GETFLAGS: lsattr(1)
    0xC020660B,  # FS_IOC_FIEMAP: where a file has holes
    0xC0606610,  # PAGEMAP_SCAN, of /proc/PID/pagemap
    0xC0686611,  # PROCMAP_QUERY, of /proc/PID/maps
    0x400C6615,  # FS_IOC_GET_ENCRYPTION_POLICY, and its second form
    0xC0096616,
    0xC080661A,  # FS_IOC_GET_ENCRYPTION_KEY_STATUS
    0xC0046686,  # FS_IOC_MEASURE_VERITY
    0xC0286687,  # FS_IOC_READ_VERITY_METADATA
    0x801C581F,  # FS_IOC_FSGETXATTR
    0x800C581E,  # XFS_IOC_DIOINFO: how direct I/O must be aligned
    0x40049409,  # FICLONE: cp(1); its target is open for writing
    0x4020940D,  # FICLONERANGE, likewise
    0xC0189436,  # FIDEDUPERANGE: shares what is equal already
    0x81009431,  # FS_IOC_GETFSLABEL
)


def refused(request: int) -> bool:
    """Whether a request is; the kernel reads an unsigned int of it."""
    request &= 0xFFFF_FFFF
    if request in HARMLESS:
        return False
    return request in REFUSED or request & TYPE_MASK in FILE_SYSTEMS
