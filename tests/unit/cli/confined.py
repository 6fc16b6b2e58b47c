"""Restricts the process of a command before the command starts."""

from __future__ import annotations

import ctypes
import os
import resource

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
VERSION_3 = 0x20080522
"""The version of the capabilities' structures: two words for each set."""


class Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class Words(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def no_file_beyond(size: int) -> None:
    """No file may grow beyond `size` bytes; writing more fails as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def unprivileged() -> None:
    """Make the permissions of files hold for root, too."""
    if os.getuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, words = Header(VERSION_3, 0), (Words * 2)()
    assert libc.capget(ctypes.byref(header), words) == 0, os.strerror(ctypes.get_errno())
    kept = ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    words[0].effective &= kept
    words[0].permitted &= kept
    assert libc.capset(ctypes.byref(header), words) == 0, os.strerror(ctypes.get_errno())
