"""Tensors beside other libraries' arrays: DLPack, the buffer protocol, devices, the array API namespace.

`Interchange` is the part of `Tensor` that other libraries call. Laws: what is handed out is the tensor's own
memory, marked read-only, or a copy where the protocol cannot say so; a traced tensor has no memory and
raises TraceError; the only device is "cpu".
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .errors import DeviceError, OptionError

if TYPE_CHECKING:
    from .types import DType

DEVICE = "cpu"
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
"""The versions of the array API standard whose names the namespace has, oldest first."""


def require_device(device: Any) -> None:
    """Raise DeviceError for a device that gtensor has not; None means the one it has."""
    if device is not None and device != DEVICE:
        raise DeviceError(f"device {device!r} is not supported", hint=f"the only device is {DEVICE!r}")


def _require_no(stream: Any, what: str) -> None:
    if stream is not None:
        raise OptionError(f"{what}: the device {DEVICE!r} has no streams")


class Interchange:
    """What other libraries ask of an array."""

    __slots__ = ()

    @property
    def device(self) -> str:
        """Where the data are: always "cpu"."""
        return DEVICE

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """The tensor itself; raises DeviceError for a device other than "cpu", OptionError for a stream."""
        require_device(device)
        _require_no(stream, "to_device")
        return self

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """`gtensor`, where the functions of the array API standard are."""
        if api_version is not None and api_version not in API_VERSIONS:
            raise OptionError(f"array API version {api_version!r} is not supported", hint=f"newest: {API_VERSIONS[-1]}")
        return sys.modules[__name__.partition(".")[0]]

    def __dlpack_device__(self) -> tuple[Any, int]:
        """The kind of device (1, the CPU) and its number."""
        return self.numpy().__dlpack_device__()

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The data for another library: read-only memory from DLPack 1.0 on, before it a copy.

        Raises BufferError where that is not possible, OptionError for a stream.
        """
        _require_no(stream, "__dlpack__")
        data = self.numpy()
        if max_version is None or max_version < (1, 0):
            if copy is False:
                raise BufferError("DLPack before version 1.0 has no read-only arrays, so the tensor must be copied")
            data = np.array(data)
        return data.__dlpack__(max_version=max_version, dl_device=dl_device, copy=copy)

    def __buffer__(self, flags: int) -> memoryview:
        """The data as read-only memory, for `memoryview` (from Python 3.12 on)."""
        return self.numpy().data

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """The element type as NumPy has it, for `np.result_type` and what asks it, such as `jax.numpy.asarray`."""
        return self.dtype.dtype

    def __complex__(self) -> complex:
        value = float(self)
        return complex(value, value) if value != value else complex(value)

    if TYPE_CHECKING:

        @property
        def dtype(self) -> DType: ...

        def numpy(self) -> np.ndarray[Any, Any]: ...

        def __float__(self) -> float: ...
