"""Exported projects as tests use them: compiled with all warnings on, loaded as a library, with records to read."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys

import cffi
import numpy as np

from tests import sanitized

STRICT = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
ZIG = [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else []
COMPILERS = {name: [name] for name in ("gcc", "clang") if shutil.which(name)} | ({"zig": ZIG} if ZIG else {})
KINDS = {"float": np.float32, "double": np.float64, "int64_t": np.int64, "int32_t": np.int32, "uint8_t": np.uint8}


def run(*command, cwd=None, code=0):
    """What a command prints; it must end with that code."""
    command, environment = [str(word) for word in command], sanitized.outside()
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout


def sources(folder):
    """The C without the example."""
    return sorted(path for path in folder.glob("*.c") if path.name != "main.c")


def records(batches):
    """A file of records as the example reads it."""
    return b"".join(np.ascontiguousarray(array).tobytes() for batch in batches for array in batch)


class Project:
    """A project as a shared library: `lib`, and `model()` for a new model in memory of its own."""

    def __init__(self, folder, prefix, flags=("-std=c99",)):
        self.folder, library = folder, folder / f"lib{prefix}.so"
        run("cc", *flags, "-O1", "-fPIC", "-shared", *sources(folder), "-lm", "-o", library)
        header = re.sub(r"/\*.*?\*/", "", (folder / f"{prefix}.h").read_text(), flags=re.DOTALL)
        header = re.sub(r'#(ifdef __cplusplus\n(extern "C" {|}))\n#endif', "", header)
        self.constants = dict(re.findall(r"#define (\w+) (\d+)", header))
        self.ffi = cffi.FFI()
        self.ffi.cdef(re.sub(r"^#.*$", "", header, flags=re.MULTILINE).replace("size_t offset, bytes;", ""))
        self.lib, self.prefix, self.kept = self.ffi.dlopen(str(library)), prefix, []

    def constant(self, name):
        return int(self.constants[f"{self.prefix.upper()}_{name}"])

    def memory(self, name):
        buffer = self.ffi.new("char[]", self.constant(name) + 64)
        self.kept.append(buffer)
        return self.ffi.cast("char *", (int(self.ffi.cast("intptr_t", buffer)) + 63) // 64 * 64)

    def model(self):
        model = self.ffi.new(f"{self.prefix} *")
        assert self.call("init", model, self.memory("STATE_BYTES"), self.memory("WORK_BYTES")) == 0
        return model

    def call(self, name, model, *args):
        return getattr(self.lib, f"{self.prefix}_{name}")(model, *map(self.given, args))

    def given(self, arg):
        if not isinstance(arg, np.ndarray):
            return arg
        kind = next(kind for kind, dtype in KINDS.items() if dtype == arg.dtype)
        return self.ffi.cast(f"{kind} *", arg.ctypes.data)

    def state(self, model):
        """The bytes of a model's state."""
        return bytes(self.ffi.buffer(model.state, self.constant("STATE_BYTES")))
