"""Facts about the machine that Python reports differently on each operating system."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

__all__ = ["memory_bytes"]

# Memory limits of a Linux container (cgroup version 2, then 1). "max" means no limit.
_CONTAINER_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


def memory_bytes() -> int | None:
    """Return the memory this process can use, in bytes, or None where the system does not say.

    That is the machine's physical memory, or the limit of the container if it is smaller.
    """
    sizes = [_container_limit(path) for path in _CONTAINER_LIMITS]
    sizes.append(_windows_memory() if sys.platform == "win32" else _posix_memory())
    return min((size for size in sizes if size is not None), default=None)


def _posix_memory() -> int | None:
    try:
        # `os.sysconf` does not exist on Windows, and these names not on every system.
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    return size if size > 0 else None


def _container_limit(path: str) -> int | None:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdecimal() and int(text) > 0 else None


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API, as GlobalMemoryStatusEx fills it."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("available_physical", ctypes.c_uint64),
        ("total_page_file", ctypes.c_uint64),
        ("available_page_file", ctypes.c_uint64),
        ("total_virtual", ctypes.c_uint64),
        ("available_virtual", ctypes.c_uint64),
        ("available_extended_virtual", ctypes.c_uint64),
    )


def _windows_memory() -> int | None:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    # `ctypes.windll` exists on Windows alone, so it is looked up by name.
    library = getattr(ctypes, "windll", None)
    if library is None or not library.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.total_physical)
