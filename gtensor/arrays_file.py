"""Files of named arrays, in the safetensors format: what a training run keeps, and weights from elsewhere.

Comes in: a tree of arrays, or a tree to fill. Goes out: a file that PyTorch, Hugging Face and others read, or the
arrays. Laws: a file is replaced whole or not at all; what is read is checked against what is expected, and every
difference is named, before anything is taken; no code is ever read from a file.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import tree
from .errors import FileError, MissingPackageError
from .tensor import Tensor, concrete
from .trace import Spec, leaf_type, to_array
from .types import Type, as_dtype, holds, known, resolve

Array = np.ndarray[Any, Any]
Names = Mapping[str, str] | Callable[[str], str] | None

TURNED = ".T"
"""Ends the name of a matrix that the file holds transposed."""


def _umask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask


UMASK = _umask()
"""What new files are not given; it can only be read by setting it, so that is done once, when nothing else runs yet."""

DIGEST = "gtensor_sha256"
"""The entry of a file's metadata with the digest of its arrays."""


def save_arrays(path: str | os.PathLike[str], arrays: Any, *, names: Names = None) -> None:
    """Write the arrays of a tree into a safetensors file, each under its path in the tree, such as `layers.0.w`.

    names: another name for some paths, as a mapping or a function of the path; a name that ends in `.T` says that the
    file holds the matrix transposed, under the name without it. An existing file is replaced when the new one is
    complete. Raises FileError for two arrays of one name and leaves that are no arrays, MissingPackageError without
    the package safetensors, OSError where the file cannot be written.

    >>> import gtensor as gt, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> gt.save_arrays(path, {"w": gt.ones((2, 3))}, names={"w": "fc.weight.T"})
    >>> gt.load_arrays(path, {"w": gt.zeros((2, 3))}, names={"w": "fc.weight.T"})["w"].shape
    (2, 3)
    """
    leaves, structure = tree.flatten(arrays)
    paths = tree.paths(structure)
    named: dict[str, Array] = {}
    for leaf, own, name in zip(leaves, paths, file_names(paths, names), strict=True):
        if isinstance(leaf, Spec) or leaf_type(leaf) is None:
            raise FileError(f"save_arrays: {own or 'the tree'} is {type(leaf).__name__}, which is no array")
        array = to_array(leaf)
        if name.endswith(TURNED):
            array = _turned(array, own)
        stem = name.removesuffix(TURNED)
        if stem in named:
            raise FileError(f"save_arrays: two arrays have the name {stem!r}")
        named[stem] = array
    write(path, named)


def load_arrays(path: str | os.PathLike[str], like: Any, *, names: Names = None) -> Any:
    """The arrays of a safetensors file in a tree of the structure of `like`, as tensors of its shapes and dtypes.

    like: a tree of arrays or specs, such as the parameters of a fresh model; names as in `save_arrays`. Arrays of the
    file that the tree does not name are passed over, and narrower dtypes widen. Raises FileError for a file that is
    damaged or no safetensors file, and for arrays that are missing, or have another shape or dtype, naming each;
    MissingPackageError without the package safetensors, OSError where the file cannot be read.

    >>> import gtensor as gt, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "weights.safetensors"
    >>> gt.save_arrays(path, {"w": [1.0, 2.0], "b": gt.ones(3)})
    >>> gt.load_arrays(path, {"b": gt.spec((3,))})
    {'b': Tensor([1., 1., 1.], dtype=float32)}
    """
    held = read(path)
    leaves, structure = tree.flatten(like)
    paths = tree.paths(structure)
    found: list[Tensor] = []
    lines = []
    for leaf, own, name in zip(leaves, paths, file_names(paths, names), strict=True):
        want = leaf.type if isinstance(leaf, Spec) else leaf_type(leaf)
        if want is None:
            raise FileError(f"load_arrays: {own or 'the tree'} is {type(leaf).__name__}, which is no array or spec")
        stem = name.removesuffix(TURNED)
        array = held.get(stem)
        if array is None:
            lines.append(f"{stem} is missing: {own} needs {resolve(want)}")
            continue
        if name.endswith(TURNED):
            array = _turned(array, own)
        target, given = resolve(want).dtype, known(array.dtype)
        if tuple(array.shape) != want.shape or given is None or not holds(target, given):
            lines.append(f"{stem} is {_type(array)}: {own} needs {resolve(want)}")
            continue
        found.append(concrete(array.astype(target.dtype)))
    if lines:
        raise FileError(f"{os.fspath(path)} does not fit:\n  " + "\n  ".join(lines), hint=_near(held, lines))
    return tree.unflatten(structure, found)


def file_names(paths: Sequence[str], names: Names) -> list[str]:
    """The names in the file; raises FileError for a mapping of paths that the tree does not have."""
    if names is None:
        return [path or "array" for path in paths]
    if not isinstance(names, Mapping):
        return [names(path) for path in paths]
    unknown = sorted(set(names) - set(paths))
    if unknown:
        raise FileError(f"names: the tree has no {', '.join(unknown)}", hint=f"it has {', '.join(paths)}")
    return [names.get(path, path or "array") for path in paths]


# ---- a run's state -----------------------------------------------------------------------------------------


def differences(expected: Mapping[str, Type], held: Mapping[str, Array]) -> list[str]:
    """What keeps named arrays from being those expected: missing ones, others, and changed types, a line each."""
    lines = [f"{name} is missing" for name in expected if name not in held]
    lines += [f"{name} is not part of it" for name in held if name not in expected]
    for name, want in expected.items():
        array = held.get(name)
        if array is not None and (tuple(array.shape), array.dtype) != (want.shape, want.dtype.dtype):
            lines.append(f"{name} is {_type(array)} in the file, here {want}")
    return lines


# ---- the file ----------------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write named arrays: into a file beside it, which then takes its place: readers see one or the other."""
    package = _safetensors()
    target = Path(path).expanduser()
    dense = {name: np.asarray(array, array.dtype.newbyteorder("="), order="C") for name, array in arrays.items()}
    data = package.numpy.save(dense, {DIGEST: _digest(dense)})
    handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent or ".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode(target))
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The named arrays of a file; raises FileError for one that is damaged or no safetensors file."""
    package, target = _safetensors(), Path(path).expanduser()
    data = target.read_bytes()
    try:
        parts = package.deserialize(data)
    except Exception as error:  # what the package raises differs with its version and with the damage
        raise FileError(f"{target} is damaged, or no safetensors file: {error}") from None
    held = {name: _array(part) for name, part in parts}
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    digest = header.get("__metadata__", {}).get(DIGEST)
    if digest is not None and digest != _digest(held):
        raise FileError(f"{target} is damaged: its contents are not those that were written")
    return held


_NAMES = {
    **{f"{kind}{bits}": f"{word}{bits}" for kind, word in (("I", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "BF16": "bfloat16",
    "BOOL": "bool",
}
"""The format's name of a dtype -> ours."""


def _array(part: Mapping[str, Any]) -> Array:
    """An array of the file; one of a dtype that gtensor has not is handed on as bytes, in a last axis."""
    name, data = _NAMES.get(part["dtype"]), np.frombuffer(part["data"], np.uint8)
    if name is None:
        return data.reshape((*part["shape"], -1) if math.prod(part["shape"]) else (*part["shape"], 0))
    return data.view(as_dtype(name).dtype.newbyteorder("<")).astype(as_dtype(name).dtype).reshape(part["shape"])


def _digest(arrays: Mapping[str, Array]) -> str:
    """A digest of names, types and contents."""
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name}\0{array.dtype}\0{array.shape}\0".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or what the process gives new files."""
    return target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~UMASK


def _turned(array: Array, path: str) -> Array:
    if array.ndim != 2:
        raise FileError(f"names: {path} has {array.ndim} axes; only a matrix is stored transposed")
    return array.T


def _type(array: Array) -> str:
    """A type as gtensor shows it, or NumPy's words for a dtype that gtensor does not have."""
    try:
        return str(Type(tuple(array.shape), as_dtype(array.dtype)))
    except TypeError:
        return f"{array.dtype}{list(array.shape)}"


def _near(held: Mapping[str, Array], lines: Sequence[str]) -> str:
    """What the file holds, where arrays are missing."""
    if not any(" is missing" in line for line in lines):
        return ""
    names = sorted(held)
    rest = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"the file has {', '.join(names[:20])}{rest}"


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise MissingPackageError(
            "reading and writing arrays needs the package safetensors", hint='pip install "gtensor[io]"'
        ) from None
    return safetensors
