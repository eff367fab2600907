"""Other libraries' arrays and the namespace in the array API: asarray, DLPack, buffers, devices, facts."""

from __future__ import annotations

import array
import sys

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import gtensor as gt
from gtensor.errors import DTypeError

from .alike import agrees, draw
from .standard import DTYPES, KINDS, dtypes

XPS = make_strategies_namespace(gt)
"""The strategies that the standard's own test suite draws arrays with: they ask the namespace for all they need."""

PROPERTY = settings(max_examples=settings.default.max_examples // 4)


@PROPERTY
@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_hypothesis_draws_arrays(data, dtype):
    target = getattr(gt, dtype)
    x = data.draw(XPS.arrays(target, XPS.array_shapes(min_dims=0, max_dims=3, max_side=3)))
    assert isinstance(x, gt.Tensor) and x.dtype == target
    assert x.__array_namespace__() is gt
    key = data.draw(XPS.indices(x.shape, allow_newaxis=True))
    agrees(x[key], np.asarray(x.numpy()[key]))


def test_hypothesis_finds_the_dtypes():
    for strategy, kind in ((XPS.integer_dtypes, "i"), (XPS.unsigned_integer_dtypes, "u"), (XPS.floating_dtypes, "f")):
        sizes = tuple(8 * np.dtype(d).itemsize for d in DTYPES if np.dtype(d).kind == kind)
        wanted = [getattr(gt, d) for d in DTYPES if np.dtype(d).kind == kind]
        for dtype in wanted:
            assert find(strategy(sizes=sizes), lambda found, dtype=dtype: found == dtype) == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_asarray_of_memory(dtype):
    x = draw((3, 4), dtype)
    views = [x, x.T, x[::-1, ::2], x[:0], np.broadcast_to(x[0], (2, 4)), np.asfortranarray(x), x[1, 2]]
    views.append(x.astype(x.dtype.newbyteorder()))
    for view in views:
        agrees(gt.asarray(view), np.asarray(view).astype(dtype), about=f"{dtype} {view.shape}")
    for held in (memoryview(np.ascontiguousarray(x)), memoryview(x[::2, ::-1])):
        agrees(gt.asarray(held), np.asarray(held))
    x_ = gt.asarray(x)
    agrees(gt.asarray(memoryview(x_) if sys.version_info >= (3, 12) else x_.__buffer__(0)), x)
    assert gt.asarray(x_) is x_ and gt.asarray(x_, copy=False) is x_ and gt.asarray(x_, dtype=x_.dtype) is x_
    agrees(gt.asarray(x_, copy=True), x)
    with pytest.raises(ValueError, match="copied"):
        gt.asarray(x, copy=False)


def test_asarray_of_buffers():
    for code in "bBhHiIqQfd":
        held = array.array(code, [1, 2, 3])
        if np.dtype(code).name in DTYPES:
            agrees(gt.asarray(held), np.asarray(held))
    agrees(gt.asarray(bytearray(b"ab")), np.array([97, 98], np.uint8))


def test_asarray_copies_what_can_change():
    x = np.ones(3, np.float32)
    for made in (gt.asarray(x), gt.asarray(x, copy=True), gt.asarray(memoryview(x)), gt.from_dlpack(x)):
        x[0] += 1
        assert made.tolist()[1:] == [1, 1] and made.tolist()[0] != x[0]


def test_asarray_of_lists_of_arrays():
    parts = [gt.asarray(1.5), 2, np.float32(3)]
    agrees(gt.asarray(parts, dtype=gt.float32), np.array([1.5, 2, 3], np.float32))
    agrees(gt.asarray([[gt.asarray(1), 2], (3, 4)], dtype=gt.int32), np.array([[1, 2], [3, 4]], np.int32))
    for empty in ([], [[]], [[], []]):
        assert gt.asarray(empty).shape == np.shape(empty) and gt.asarray(empty).dtype == gt.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_both_ways(dtype):
    for x in (draw((2, 3), dtype), draw((), dtype), draw((0, 2), dtype), draw((4, 5), dtype)[::2, 1::2]):
        ours = gt.from_dlpack(x)
        agrees(ours, x)
        for device, copy in ((None, None), ("cpu", None), ("cpu", True)):
            agrees(gt.from_dlpack(x, device=device, copy=copy), x)
        theirs = np.from_dlpack(ours)
        assert theirs.dtype == dtype and not theirs.flags.writeable
        assert np.shares_memory(theirs, ours.numpy()) or not x.size
        agrees(gt.from_dlpack(ours), x)
        for version in (None, (0, 8), (1, 0), (1, 1)):
            assert ours.__dlpack__(max_version=version) is not None
        assert np.from_dlpack(ours, copy=True).flags.writeable and ours.__dlpack_device__() == (1, 0)
        for refused in ({"dl_device": (2, 0)}, {"copy": False, "max_version": (0, 8)}):
            with pytest.raises(BufferError):
                ours.__dlpack__(**refused)
        with pytest.raises(BufferError, match="gpu"):
            gt.from_dlpack(x, device="gpu")
        with pytest.raises(ValueError, match="stream"):
            ours.__dlpack__(stream=1)


@pytest.mark.parametrize("readable", [True, False])
def test_dtypes_that_numpys_dlpack_has_not(readable):
    class Foreign:
        dtype = "bfloat16"

        def __dlpack__(self, **_):
            raise RuntimeError("Unsupported dtype in DLTensor.")

        def __dlpack_device__(self):
            return (1, 0)

        def __array__(self, dtype=None, copy=None):
            if readable:
                return np.ones(2, np.float32)
            raise TypeError("Got unsupported ScalarType BFloat16")

    for f in (gt.asarray, gt.from_dlpack, lambda x: gt.compile(lambda x: x + 0)(x)):
        if readable:
            assert f(Foreign()).tolist() == [1, 1]
        else:
            with pytest.raises(DTypeError, match="Foreign of dtype bfloat16 cannot be read"):
                f(Foreign())


def test_numpy_asks_for_arrays():
    x = gt.asarray([[1.0, 2.0]])
    assert np.shares_memory(np.asarray(x), x.numpy()) and not np.asarray(x).flags.writeable
    assert np.array(x).flags.writeable and np.asarray(x, dtype=np.int64).tolist() == [[1, 2]]
    with pytest.raises(ValueError, match="copy"):
        np.array(x, dtype=np.int64, copy=False)
    assert [np.shape(x), np.size(x), np.ndim(x)] == [(1, 2), 2, 2]
    assert x.__numpy_dtype__ == np.float32 and gt.asarray(True).__numpy_dtype__ == np.bool_


def test_namespaces():
    x = gt.ones(2)
    assert x.__array_namespace__() is gt
    for version in ("2021.12", "2022.12", "2023.12", "2024.12", None):
        assert x.__array_namespace__(api_version=version) is gt
    for version in ("2019.12", "2025"):
        with pytest.raises(ValueError, match=version):
            x.__array_namespace__(api_version=version)


def test_devices():
    x = gt.ones(2)
    info = gt.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == [x.device]
    assert x.to_device(x.device) is x and gt.asarray(x, device=x.device) is x
    for name in ("zeros", "ones", "empty"):
        assert getattr(gt, name)(2, device=x.device).device == getattr(gt, f"{name}_like")(x, device=x.device).device
    for made in (
        gt.full(2, 1, device=x.device), gt.full_like(x, 1, device=x.device), gt.eye(2, device=x.device),
        gt.arange(2, device=x.device), gt.linspace(0, 1, 2, device=x.device), gt.from_dlpack(x, device=x.device),
        gt.astype(x, gt.int32, device=x.device), x + x, gt.sum(x), gt.sort(x),
    ):  # fmt: skip
        assert made.device == x.device


def test_inspection():
    info = gt.__array_namespace_info__()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] is capabilities["data-dependent shapes"] is True
    assert gt.zeros((1,) * capabilities["max dimensions"]).ndim == capabilities["max dimensions"]
    standard_kinds = {
        "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
        "complex floating": "c", "numeric": "iufc",
    }  # fmt: skip
    everything = info.dtypes(device=None)
    for kind, letters in standard_kinds.items():
        found = info.dtypes(kind=kind)
        assert {*found} == {name for name, dtype in everything.items() if dtype.kind in letters}
        assert all(gt.isdtype(dtype, kind) == (name in found) for name, dtype in everything.items())
    assert info.dtypes(kind=("bool", "unsigned integer")) == info.dtypes(kind="bool") | info.dtypes(
        kind="unsigned integer"
    )
    assert info.dtypes(kind=()) == {} and {*everything} == {*DTYPES}
    assert all(
        np.dtype(name).kind in "".join(KINDS.values()) and everything[name].dtype == np.dtype(name) for name in DTYPES
    )
    defaults = info.default_dtypes(device=info.default_device())
    assert (defaults["real floating"], defaults["integral"], defaults["indexing"]) == (gt.float32, gt.int64, gt.int64)


def test_limits():
    for dtype in dtypes("floating"):
        wanted = np.finfo(dtype)
        for asked in (getattr(gt, dtype), gt.zeros(2, dtype=getattr(gt, dtype))):
            found = gt.finfo(asked)
            assert (found.bits, found.dtype) == (wanted.bits, getattr(gt, dtype)) and type(found.bits) is int
            for name in ("eps", "max", "min", "smallest_normal"):
                assert type(getattr(found, name)) is float and getattr(found, name) == float(getattr(wanted, name))
    for dtype in dtypes("integer"):
        wanted = np.iinfo(dtype)
        for asked in (getattr(gt, dtype), gt.zeros(2, dtype=getattr(gt, dtype))):
            found = gt.iinfo(asked)
            assert (found.bits, found.max, found.min) == (wanted.bits, wanted.max, wanted.min)
            assert found.dtype == getattr(gt, dtype) and type(found.max) is type(found.min) is int
