"""The table that tests over all primitives share: which operands each record is tried on.

`TABLE` has one entry per record, sample and dtype; `operands` gives a sample's arrays, `awkward` arrays of
difficult values in difficult shapes, `layouts` the same arrays in difficult memory. Nothing here knows an
operation by name, so a new record is tested without an edit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import gtensor as gt
from gtensor.interp import run as evaluate
from gtensor.prim import REGISTRY, Input, Prim, Sample
from gtensor.tensor import apply
from gtensor.types import DTYPES, DType, bool_, finfo_of, known


@dataclass(frozen=True, eq=False)
class Entry:
    """One record with one sample in one dtype."""

    prim: Prim
    sample: Sample
    dtype: DType

    def __str__(self) -> str:
        return f"{self.prim.name}-{self.prim.samples.index(self.sample)}-{self.dtype.tag}"

    def call(self, *operands):
        """The operation as users would call it, eager or traced."""
        return apply(self.prim.name, *operands, **self.sample.params)

    @property
    def widened(self) -> bool:
        """Whether it is computed in float32 and rounded once."""
        return self.dtype.stored and not self.prim.takes_stored

    def numpy(self, *arrays) -> np.ndarray:
        """The record's NumPy rule; of a dtype of 16 bits in float32, rounded at the end."""
        with np.errstate(all="ignore"):
            wide = [a.astype(np.float32) if self.widened and a.dtype == self.dtype.dtype else a for a in arrays]
            out = np.asarray(self.prim.numpy(*wide, **self.sample.params))
            return out.astype(self.dtype.dtype) if self.widened and out.dtype == np.float32 else out

    def interpreted(self, *arrays) -> np.ndarray:
        """The reference evaluator on the traced operation."""
        specs = [gt.spec(a.shape, a.dtype) for a in arrays]
        (out,) = evaluate(gt.trace(self.call, *specs), arrays)
        return out


def dtypes_of(sample: Sample) -> list[DType]:
    """The dtypes a sample names, by kind or by tag."""
    return [d for d in DTYPES if d.kind in sample.dtypes or d.tag in sample.dtypes]


def wanted(prim: Prim, sample: Sample, dtype: DType) -> bool:
    """Whether an entry is needed: in a dtype of 16 bits, which adds two conversions, one sample is enough."""
    return not dtype.stored or sample is next(s for s in prim.samples if dtype in dtypes_of(s))


TABLE = [Entry(p, s, d) for p in REGISTRY.values() for s in p.samples for d in dtypes_of(s) if wanted(p, s, d)]
FLOATS = [e for e in TABLE if e.dtype.floating]
DIFFERENTIABLE = [e for e in TABLE if e.sample.grad and e.dtype is gt.float64]


def operands(entry: Entry, seed: int = 0) -> list[np.ndarray]:
    """The sample's operands."""
    rng = np.random.default_rng(seed)
    return [i.array(rng, entry.dtype) for i in entry.sample.inputs]


def special(dtype: DType) -> np.ndarray:
    """The difficult values of a dtype."""
    if dtype.floating:
        info = finfo_of(dtype)
        magnitudes = [0.0, 1.0, np.inf, np.nan, info.smallest_subnormal, info.tiny, info.max, 0.5, 2.5, 3.0, 88.7, 1e10]
        with np.errstate(all="ignore"):
            return np.array([s * float(m) for m in magnitudes for s in (1, -1)]).astype(dtype.dtype)
    if dtype is bool_:
        return np.array([False, True])
    info = np.iinfo(dtype.dtype)
    values = {0, 1, 2, 3, 7, 31, 64, info.max, info.min, info.max - 1} | ({-1, -2, -7} if info.min else set())
    return np.array(sorted(values), dtype.dtype)


def awkward(entry: Entry) -> Iterator[list[np.ndarray]]:
    """Operands of difficult values: all pairs elementwise (also empty, 0-d, odd), else sprinkled over the sample."""
    inputs = entry.sample.inputs
    fixed = [i.values is not None and i.dtype is not None and i.dtype is not bool_ for i in inputs]
    if entry.prim.kind == "elementwise" and not any(fixed):
        columns = [special(i.dtype or entry.dtype) for i in inputs]
        rows = np.array(list(itertools.product(*map(range, map(len, columns)))))
        full = [column[rows[:, k]] for k, column in enumerate(columns)]
        yield full
        yield [a[:0] for a in full]
        yield [a[:33].reshape(-1, 1, 3)[:, :, 1:] for a in (np.resize(f, 33) for f in full)]
        yield [a[len(a) // 2] for a in full]
    rng = np.random.default_rng(1)
    if entry.prim.kind == "routine":  # numbers at random make matrices without an answer
        for value, place in itertools.product((np.nan, -np.inf), range(len(inputs))):
            arrays = operands(entry)
            arrays[place].reshape(-1)[:1] = value
            yield arrays
        return
    for _ in range(3):
        arrays = operands(entry)
        yield [
            a if f else rng.choice(special(i.dtype or entry.dtype), a.shape)
            for a, f, i in zip(arrays, fixed, inputs, strict=True)
        ]


def layouts(array: np.ndarray) -> Iterator[np.ndarray]:
    """The same values transposed, strided, reversed and read-only in memory."""
    yield np.array(array, order="F")
    spread = np.zeros([2 * n + 1 for n in array.shape], array.dtype)
    view = spread[..., *(slice(1, None, 2) for _ in array.shape)]
    view[...] = array
    view.flags.writeable = False
    yield view
    back = (..., *(slice(None, None, -1) for _ in array.shape))
    yield array[back].copy()[back]


def batch_of(input: Input, dtype: DType, size: int) -> np.ndarray:
    """Several draws of one operand, stacked in front; given values are rolled, which keeps indices in range."""
    rng = np.random.default_rng(2)
    draws = [input.array(rng, dtype) for _ in range(size)]
    return np.stack([a if input.values is None else np.roll(a, k) for k, a in enumerate(draws)])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if known(a.dtype).stored:
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    signs = [np.signbit(x) & (x == x) for x in (a, b)]
    return bool(np.array_equal(a, b, equal_nan=True) and np.array_equal(*signs))
