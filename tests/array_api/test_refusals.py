"""What the functions of the array API refuse: dtypes, axes, shapes and options that do not fit, and what a trace lacks.

The error is a TypeError, ValueError or IndexError of gtensor's own that names the caller's line, whether the call is
eager or traced.
"""

from __future__ import annotations

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import GTensorError, TraceError

from .alike import texts
from .standard import MAIN, signatures

OPERANDS = {
    "b": np.array([True, False]), "i": np.array([1, 2]), "f": np.ones(2, np.float32), "g": np.ones(3, np.float32),
    "m": np.ones((2, 3), np.float32), "s": np.float32(1) + np.zeros((), np.float32), "e": np.ones((2, 0), np.float32),
}  # fmt: skip
"""Vectors of bools, integers and floats, 3 floats, a matrix, one without axes, an empty one."""

REFUSED = {
    TypeError: texts("""
bitwise_and(f, f) | bitwise_or(i, f) | bitwise_xor(f, 1) | bitwise_invert(f) | bitwise_left_shift(f, i)
bitwise_right_shift(i, 1.5) | f & f | ~f | i << f | 1.0 >> i | negative(b) | subtract(b, b) | sign(b)
floor_divide(b, b) | remainder(b, b) | -b | b - b | matmul(b, b) | take(f, f) | take(f, b) | take_along_axis(f, f)
sum(f, axis=0.5) | sum(f, axis='0') | expand_dims(f, 1.0) | max(f, axis=(0.0,)) | argmax(m, axis=(0, 1))
reshape(f, (2.0, 1)) | broadcast_to(f, (2.5,)) | repeat(f, 1.5) | roll(f, 1.5) | permute_dims(m, (0.0, 1.0))
zeros(2.5) | ones('2') | eye(2.5) | linspace(0, 1, 2.5) | arange('3') | arange(3, None, 1j) | full(2, 'a')
full(2, 1j) | zeros(2, dtype='complex64') | astype(f, 'float1') | astype(f, None) | asarray(f, dtype=object)
asarray([1, 'a']) | asarray(1j) | asarray([[1], [1, 2]]) | asarray(None) | add(f, None) | add(f, 'a')
multiply(1j, f) | where(b, f, 'a') | concat([f, 'a']) | clip(f, 'a') | from_dlpack([1.0]) | finfo(int32)
iinfo(float32) | result_type() | linalg.matmul(b, b) | tile(f, (1.5,)) | searchsorted(f, g, sorter=f)
isdtype(float32, None) | isdtype('float1', 'bool')
"""),
    ValueError: texts("""
add(f, g) | f + g | where(b, f, g) | clip(f, g) | matmul(m, m) | m @ f @ f | matmul(s, m) | m @ s | vecdot(f, g)
vecdot(s, f) | tensordot(m, m, axes=1) | tensordot(m, m, axes=3) | tensordot(m, m, axes=-1)
tensordot(m, m, axes=((0,), (1,))) | tensordot(m, m, axes=((0, 0), (0, 0))) | tensordot(m, m, axes=((0, 1), (0,)))
sum(f, axis=1) | sum(m, axis=(0, 2)) | sum(m, axis=(0, -2)) | prod(s, axis=0) | max(m, axis=-3) | min(e, axis=1)
max(e) | argmin(e) | argmax(m, axis=2) | mean(f, axis=1) | std(f, axis=-2) | var(m, axis=(1, 1)) | all(f, axis=1)
any(s, axis=-1) | count_nonzero(f, axis=1) | cumulative_sum(m) | cumulative_prod(m) | cumulative_sum(f, axis=1)
diff(s) | diff(f, axis=1) | diff(f, n=-1) | sort(f, axis=1) | sort(s) | argsort(f, axis=-2) | searchsorted(s, f)
searchsorted(f, f, side='up') | nonzero(s) | broadcast_to(m, (3, 2)) | broadcast_to(m, (3,))
broadcast_to(f, (-1, 2)) | broadcast_arrays(f, g) | concat([]) | concat([f, m]) | concat([s, s])
concat([m, m], axis=2) | concat([m, e]) | stack([]) | stack([f, g]) | stack([f, f], axis=3) | unstack(s)
unstack(f, axis=1) | expand_dims(f, 2) | expand_dims(f, -3) | flip(f, axis=1) | flip(m, axis=(0, 0))
moveaxis(m, 0, 2) | moveaxis(m, (0, 0), (0, 1)) | moveaxis(m, (0, 1), (0,)) | permute_dims(m, (0,))
permute_dims(m, (0, 0)) | permute_dims(m, (0, 1, 2)) | repeat(f, -1) | repeat(f, asarray([1, 2, 3]))
repeat(m, 2, axis=2) | reshape(f, (3,)) | reshape(f, (-1, -1)) | reshape(m, (4, -1)) | reshape(m, (-2, -3))
reshape(e, (0, -1)) | roll(f, 1, axis=1) | roll(m, (1, 2, 3), axis=(0, 1)) | squeeze(f, 0) | squeeze(m, (0, 1))
squeeze(s, 0) | tile(f, (-1,)) | matrix_transpose(f) | f.mT | tril(f) | triu(s) | zeros(-1) | ones((2, -1))
full((-2,), 1) | eye(-1) | eye(2, -1) | linspace(0, 1, -1) | arange(0, 1, 0) | arange(inf) | arange(nan) | meshgrid(m)
meshgrid(s, f) | meshgrid(f, f, indexing='yx') | isdtype(float32, 'floats') | zeros(2, device='gpu')
asarray(f, device='gpu') | f.to_device('gpu') | take(s, asarray([0]), axis=0) | take(f, asarray([0]), axis=1)
take_along_axis(m, asarray([0])) | take_along_axis(m, asarray([[0], [0], [0]])) | bool(f) | float(f)
linalg.cholesky(m) | linalg.cholesky(f) | linalg.cross(f, f) | linalg.cross(g, f) | linalg.det(m) | linalg.diagonal(f)
linalg.eigh(m) | linalg.eigvalsh(f) | linalg.inv(m) | linalg.matrix_norm(f) | linalg.matrix_norm(m, ord=3)
linalg.matrix_power(m, 2) | linalg.matrix_power(m[:, :2], 0.5) | linalg.matrix_rank(f) | linalg.pinv(f) | linalg.qr(f)
linalg.qr(m, mode='full') | linalg.slogdet(m) | linalg.solve(m, f) | linalg.solve(m[:, :2], g) | linalg.svd(f)
linalg.svdvals(s) | linalg.trace(f) | linalg.vector_norm(f, axis=1) | linalg.vector_norm(f, ord='fro')
linalg.vecdot(f, g)
"""),
    IndexError: texts("""
take(f, asarray([2])) | take(m, asarray([-4]), axis=1) | take_along_axis(f, asarray([2])) | f[2] | f[-3] | f[0, 0]
m[0, 3] | m[..., ...] | expand_dims(f, 5) | sum(f, axis=1) | unstack(m, axis=2) | m[asarray([0, 2])]
f[asarray([True])]
"""),
    AttributeError: ["from_dlpack([1.0])"],
    BufferError: ["from_dlpack(xp.ones(2), copy=False)"],
}  # fmt: skip
"""Errors that the caller may expect, and the calls that raise them."""

CASES = [(error, text) for error, found in REFUSED.items() for text in found]
EAGER_ONLY = ("from_dlpack", "bool(", "float(", "nonzero", "asarray(f", "f[asarray([True])", "f.to_device")
"""Calls that a trace refuses for other reasons."""


def call(text, operands):
    """The text's value; errors name this line."""
    return eval(text, {**vars(gt), "xp": np, "bool": bool, "float": float, **operands})


@pytest.mark.parametrize("error,text", CASES, ids=[f"{error.__name__}: {text}" for error, text in CASES])
def test_refused(error, text):
    tensors = {name: gt.asarray(value) for name, value in OPERANDS.items()}
    with pytest.raises(error) as caught:
        call(text, tensors)
    found = caught.value
    assert isinstance(found, GTensorError), f"{type(found).__name__}: {found}"
    assert "<string>:1" in str(found) or "test_refusals.py" in str(found)
    assert len(str(found).splitlines()) <= 4 and "numpy" not in str(found).lower()


def test_refused_while_tracing():
    for error, text in CASES:
        if not any(part in text for part in EAGER_ONLY):
            with pytest.raises(error) as caught:
                gt.trace(lambda operands, text=text: call(text, operands), OPERANDS)
            assert isinstance(caught.value, GTensorError), text


# ---- while tracing --------------------------------------------------------------------------------------------

UNKNOWN = {
    "nonzero": lambda x: gt.nonzero(x),
    "unique_all": lambda x: gt.unique_all(x),
    "unique_counts": lambda x: gt.unique_counts(x),
    "unique_inverse": lambda x: gt.unique_inverse(x),
    "unique_values": lambda x: gt.unique_values(x),
    "a mask": lambda x: x[x > 0],
    "repeats": lambda x: gt.repeat(x, gt.astype(x, gt.int64)),
    "a truth value": lambda x: 1 if x[0] > 0 else 2,
    "a float": lambda x: float(x[0]),
    "an int": lambda x: int(x[0]),
    "an index": lambda x: [1, 2][gt.astype(x[0], gt.int64)],
    "a bound of a slice": lambda x: x[: gt.astype(x[0], gt.int64)],
    "places to delete": lambda x: gt.delete(x, gt.astype(x[0], gt.int64)),
    "a complex": lambda x: complex(x[0]),
    "its memory": lambda x: np.from_dlpack(x),
}
"""What needs numbers, which a trace has not."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_a_trace_lacks(name):
    with pytest.raises(TraceError) as caught:
        gt.trace(UNKNOWN[name], np.ones(2, np.float32))
    text = str(caught.value)
    assert "depend" in text or ("traced tensor" in text and isinstance(caught.value, ValueError))
    assert "hint: " in text and "test_refusals.py" in text


def test_every_function_takes_its_positional_arguments_only_by_position():
    for name, signature in signatures(MAIN).items():
        given = [p.name for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        if given:
            with pytest.raises(TypeError):
                getattr(gt, name)(**{given[0]: gt.ones(2)})
