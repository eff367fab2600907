"""The Python array API standard (2024.12): facts of dtypes and of the namespace, and other libraries.

The functions themselves, by name, signature and value, are tested in tests/array_api.
"""

from __future__ import annotations

import ctypes
import operator
import sys

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import CopyError, DTypeError, OptionError, TraceError
from gtensor.types import SIGNED


def test_operators_update_in_place_by_making_new_ones():
    for name in "iadd isub imul itruediv ifloordiv ipow imod iand ior ixor ilshift irshift imatmul".split():
        x = gt.full((2, 2), 3)
        other = gt.full((2, 2), 2)
        result = getattr(operator, name)(x, other)
        np.testing.assert_allclose(result, getattr(operator, name[1:] + ("_" if name[1:] in ("and", "or") else ""))(
            np.full((2, 2), 3), np.full((2, 2), 2)
        ))  # fmt: skip
        assert x.tolist() == [[3, 3], [3, 3]]


# ---- dtypes ---------------------------------------------------------------------------------------------------


def test_result_type_is_what_operations_give():
    for a in gt.__array_namespace_info__().dtypes().values():
        for b in gt.__array_namespace_info__().dtypes().values():
            x, y = gt.ones(2, dtype=a), gt.ones(2, dtype=b)
            if {a, b} & set(SIGNED) and gt.uint64 in (a, b):
                for meet in (gt.result_type, gt.add):
                    with pytest.raises(DTypeError, match="no common integer dtype"):
                        meet(x, y)
                assert not gt.can_cast(a, b)
                continue
            assert gt.result_type(a, b) == gt.result_type(x, y) == gt.where(True, x, y).dtype
            assert gt.can_cast(a, b) == gt.can_cast(x, b) == (gt.result_type(a, b) == b)
        assert gt.result_type(a, 1) == (gt.ones(2, dtype=a) * 1).dtype
        assert gt.result_type(1.0, a) == (gt.ones(2, dtype=a) * 1.0).dtype
    assert gt.result_type(1, 2.0) == gt.float32 and gt.result_type(True) == gt.bool_
    assert gt.result_type(np.float64, "int32") == gt.float64
    with pytest.raises(DTypeError):
        gt.result_type()


def test_kinds_of_dtypes():
    kinds = "bool|signed integer|unsigned integer|integral|real floating|complex floating|numeric".split("|")
    for dtype in gt.__array_namespace_info__().dtypes().values():
        for kind in kinds:
            assert gt.isdtype(dtype, kind) == np.isdtype(dtype.dtype, kind)
            assert (dtype.name in gt.__array_namespace_info__().dtypes(kind=kind)) == np.isdtype(dtype.dtype, kind)
    assert gt.isdtype(gt.float32, ("bool", gt.float32)) and not gt.isdtype(gt.float32, gt.float64)
    with pytest.raises(OptionError):
        gt.isdtype(gt.float32, "floating")


def test_limits_of_dtypes():
    for dtype in (gt.float32, gt.float64):
        ours, numpys = gt.finfo(dtype), np.finfo(dtype.dtype)
        assert (ours.bits, ours.dtype) == (numpys.bits, dtype)
        for name in ("eps", "max", "min", "smallest_normal"):
            assert getattr(ours, name) == getattr(numpys, name) and type(getattr(ours, name)) is float
    for dtype in (gt.int32, gt.int64, gt.uint8):
        ours, numpys = gt.iinfo(gt.ones(1, dtype=dtype)), np.iinfo(dtype.dtype)
        assert (ours.bits, ours.max, ours.min, ours.dtype) == (numpys.bits, numpys.max, numpys.min, dtype)
    for f, dtype in ((gt.finfo, gt.int32), (gt.iinfo, gt.float32), (gt.iinfo, gt.bool_)):
        with pytest.raises(DTypeError):
            f(dtype)


def test_the_namespace_says_what_it_has():
    info = gt.__array_namespace_info__()
    assert {*info.capabilities()} == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert info.default_dtypes(device="cpu") == {
        "real floating": gt.ones(1).dtype, "integral": gt.tensor(1).dtype, "indexing": gt.argmax([1]).dtype,
    }  # fmt: skip
    assert all(getattr(gt, name) is dtype for name, dtype in info.dtypes().items())
    with pytest.raises(OptionError):
        info.dtypes(device="gpu")


# ---- other libraries ------------------------------------------------------------------------------------------


def test_a_tensor_knows_its_namespace():
    x = gt.ones(2)
    assert x.__array_namespace__() is gt is x.__array_namespace__(api_version="2024.12")
    with pytest.raises(OptionError, match="1999"):
        x.__array_namespace__(api_version="1999.12")


def test_dlpack_hands_out_read_only_memory_or_a_copy():
    for dtype in gt.__array_namespace_info__().dtypes().values():
        x = gt.ones((2, 3), dtype=dtype)
        y = np.from_dlpack(x)
        assert y.dtype == dtype.dtype and y.tolist() == x.tolist()
        assert np.shares_memory(y, x.numpy()) and not y.flags.writeable
        assert gt.from_dlpack(y).tolist() == x.tolist()
    assert x.__dlpack_device__() == (1, 0)
    old = _array(x.__dlpack__())
    assert old.tolist() == x.tolist() and not np.shares_memory(old, x.numpy())
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    with pytest.raises(TraceError):
        gt.trace(lambda x: np.from_dlpack(x), x)


def _array(capsule):
    class Holder:
        def __dlpack__(self, **_):
            return capsule

        def __dlpack_device__(self):
            return (1, 0)

    return np.from_dlpack(Holder())


def test_from_dlpack_copies():
    x = np.arange(3.0)
    y = gt.from_dlpack(x, device="cpu", copy=True)
    x[0] = 9
    assert y.tolist() == [0, 1, 2] and gt.from_dlpack(y) is y
    with pytest.raises(BufferError):
        gt.from_dlpack(x, copy=False)
    with pytest.raises(DTypeError, match="DLPack"):
        gt.from_dlpack([1.0])
    with pytest.raises(DTypeError):
        gt.from_dlpack(np.ones(1, np.complex64))


def test_the_buffer_is_read_only_memory():
    x = gt.tensor([[1.0, 2.0]])
    view = x.__buffer__(0) if sys.version_info < (3, 12) else memoryview(x)
    assert view.readonly and view.tolist() == [[1.0, 2.0]] and view.format == "f"
    with pytest.raises((TypeError, BufferError, ValueError)):
        ctypes.c_float.from_buffer(view)


def test_numpy_reads_a_tensor():
    x = gt.tensor([1, 2])
    assert np.shares_memory(np.asarray(x), x.numpy()) and np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x).flags.writeable and complex(gt.tensor(1.5)) == 1.5
    with pytest.raises(TraceError):
        gt.trace(lambda x: np.asarray(x), x)


def test_copies_and_devices():
    x, y = gt.ones(2), np.ones(2)
    assert gt.asarray(x, copy=False) is x and gt.asarray(x, gt.float64).dtype == gt.float64
    assert gt.asarray(y, copy=True).dtype == gt.float64 and x.to_device("cpu") is x
    for copied in (lambda: gt.asarray(y, copy=False), lambda: gt.asarray(x, gt.int32, copy=False)):
        with pytest.raises(CopyError):
            copied()
    for f in (gt.zeros, gt.ones, gt.empty, gt.zeros_like, gt.ones_like, gt.empty_like, gt.asarray, gt.arange, gt.eye):
        assert f(3, device="cpu").tolist() == f(3).tolist()
        with pytest.raises(OptionError, match="gpu"):
            f(3, device="gpu")
    for f in (gt.full, gt.full_like, lambda x, v, device: gt.linspace(0, x, v, device=device)):
        with pytest.raises(OptionError, match="gpu"):
            f(3, 4, device="gpu")
    with pytest.raises(OptionError):
        x.to_device("cpu", stream=1)
    with pytest.raises(OptionError):
        gt.astype(x, gt.int32, device="gpu")
