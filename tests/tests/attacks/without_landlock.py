"""Runs a command for which the kernel says that it has no Landlock: a filter on its system calls answers so."""

import ctypes
import os
import struct
import sys

LANDLOCK_CREATE_RULESET = 444
NO_SUCH_SYSTEM_CALL = 38
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, FILTER = 22, 38, 2


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


instructions = [
    (LOAD, 0, 0, 0),
    (JUMP_IF_EQUAL, 0, 1, LANDLOCK_CREATE_RULESET),
    (RETURN, 0, 0, ERROR | NO_SUCH_SYSTEM_CALL),
    (RETURN, 0, 0, ALLOW),
]
code = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
program = Program(len(instructions), code)
libc = ctypes.CDLL(None, use_errno=True)
for arguments in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0)]:
    if libc.prctl(*arguments) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
