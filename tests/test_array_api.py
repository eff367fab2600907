"""The Python array API standard (2024.12): names and signatures of the main namespace, dtypes, and other libraries.

`SIGNATURES` is the standard's text. As its own test suite has it, a parameter may be given by position where the
standard asks for a keyword, never the other way round.
"""

from __future__ import annotations

import ctypes
import inspect
import operator
import sys

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import CopyError, DTypeError, OptionError, TraceError
from gtensor.types import SIGNED

SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
abs(x, /)
acos(x, /)
acosh(x, /)
add(x1, x2, /)
asin(x, /)
asinh(x, /)
atan(x, /)
atan2(x1, x2, /)
atanh(x, /)
bitwise_and(x1, x2, /)
bitwise_invert(x, /)
bitwise_left_shift(x1, x2, /)
bitwise_or(x1, x2, /)
bitwise_right_shift(x1, x2, /)
bitwise_xor(x1, x2, /)
ceil(x, /)
clip(x, /, min=None, max=None)
conj(x, /)
copysign(x1, x2, /)
cos(x, /)
cosh(x, /)
divide(x1, x2, /)
equal(x1, x2, /)
exp(x, /)
expm1(x, /)
floor(x, /)
floor_divide(x1, x2, /)
greater(x1, x2, /)
greater_equal(x1, x2, /)
hypot(x1, x2, /)
imag(x, /)
isfinite(x, /)
isinf(x, /)
isnan(x, /)
less(x1, x2, /)
less_equal(x1, x2, /)
log(x, /)
log10(x, /)
log1p(x, /)
log2(x, /)
logaddexp(x1, x2, /)
logical_and(x1, x2, /)
logical_not(x, /)
logical_or(x1, x2, /)
logical_xor(x1, x2, /)
maximum(x1, x2, /)
minimum(x1, x2, /)
multiply(x1, x2, /)
negative(x, /)
nextafter(x1, x2, /)
not_equal(x1, x2, /)
positive(x, /)
pow(x1, x2, /)
real(x, /)
reciprocal(x, /)
remainder(x1, x2, /)
round(x, /)
sign(x, /)
signbit(x, /)
sin(x, /)
sinh(x, /)
sqrt(x, /)
square(x, /)
subtract(x1, x2, /)
tan(x, /)
tanh(x, /)
trunc(x, /)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
__array_namespace_info__()
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
"""

EXCLUDED = {
    "conj": "there are no complex numbers",
    "imag": "there are no complex numbers",
    "real": "there are no complex numbers",
}
PENDING = {
    "acosh", "argsort", "asinh", "atanh", "copysign", "cumulative_prod", "cumulative_sum", "diff", "hypot",
    "logaddexp", "nextafter", "searchsorted", "signbit", "sort",
}  # fmt: skip
"""Names of the standard that may still be missing."""

METHODS = """
__array_namespace__(self, /, *, api_version=None)
__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
__dlpack_device__(self, /)
to_device(self, device, /, *, stream=None)
"""

OPERATORS = """abs add and bool complex eq float floordiv ge getitem gt index int invert le lshift lt matmul mod mul ne
neg or pos pow rshift sub truediv xor radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv
rxor"""

CONSTANTS = "e inf nan newaxis pi"
ATTRIBUTES = "dtype device mT ndim shape size T"


def standard(text: str) -> dict[str, inspect.Signature]:
    """Signatures by name, from the standard's text."""
    found = {}
    for line in text.strip().splitlines():
        space: dict[str, object] = {}
        exec(f"def {line}: ...", space)
        name = line.partition("(")[0]
        found[name] = inspect.signature(space[name])
    return found


def breaches(given: inspect.Signature, wanted: inspect.Signature) -> list[str]:
    """In what a signature is less than the standard's."""
    ours, wrong = list(given.parameters.values()), []
    for i, parameter in enumerate(wanted.parameters.values()):
        if parameter.kind is parameter.KEYWORD_ONLY:
            mine = given.parameters.get(parameter.name)
            if mine is None or mine.kind is mine.POSITIONAL_ONLY or mine.default != parameter.default:
                wrong.append(f"{parameter.name} must be a keyword with the default {parameter.default}")
            continue
        mine = ours[i] if i < len(ours) else None
        if mine is None or mine.kind is mine.KEYWORD_ONLY:
            wrong.append(f"{parameter.name} must be in place {i}")
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD and (mine.kind, mine.name) != (
            parameter.kind, parameter.name,
        ):  # fmt: skip
            wrong.append(f"{parameter.name} must be in place {i} and a keyword")
        elif parameter.kind is parameter.VAR_POSITIONAL and mine.kind is not parameter.kind:
            wrong.append(f"*{parameter.name} is missing")
        elif parameter.default is not parameter.empty and mine.default != parameter.default:
            wrong.append(f"{parameter.name} must have the default {parameter.default}")
    return wrong


def test_no_name_is_missing_but_the_excluded():
    missing = {name for name in standard(SIGNATURES) if not hasattr(gt, name)}
    assert {*EXCLUDED} <= missing <= {*EXCLUDED} | PENDING
    assert all(hasattr(gt, name) for name in CONSTANTS.split())
    assert gt.__array_api_version__ == "2024.12"


@pytest.mark.parametrize("name", [name for name in standard(SIGNATURES) if hasattr(gt, name)])
def test_signatures(name):
    assert not breaches(inspect.signature(getattr(gt, name)), standard(SIGNATURES)[name])


@pytest.mark.parametrize("name", standard(METHODS))
def test_methods(name):
    assert not breaches(inspect.signature(getattr(gt.Tensor, name)), standard(METHODS)[name])


def test_breaches_are_found():
    wanted = standard("f(x, /, *, axis=None)")["f"]
    for text in ("f(x)", "f(x, /, axis=0)", "f(x, axis=None, /)", "f(*, x, axis=None)", "f()"):
        assert breaches(standard(text)["f"], wanted), text
    assert not breaches(standard("f(x, axis=None, more=1)")["f"], wanted)
    assert breaches(standard("f(y)")["f"], standard("f(x)")["f"])
    assert breaches(standard("f(x)")["f"], standard("f(*x)")["f"])


@pytest.mark.parametrize("name", OPERATORS.split())
def test_operators(name):
    assert callable(getattr(gt.Tensor, f"__{name}__"))


def test_attributes():
    x = gt.ones((2, 3))
    assert all(hasattr(x, name) for name in ATTRIBUTES.split())
    assert (x.ndim, x.size, x.shape, x.device, x.T.shape, x.mT.shape) == (2, 6, (2, 3), "cpu", (3, 2), (3, 2))


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
