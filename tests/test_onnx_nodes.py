"""The single-node cases of the onnx wheel on operators that gtensor has, eager and compiled, to the cases' tolerances.

Each case runs, or stands in one of the tables with the reason: its operator is ABSENT, it has a dtype that gtensor
has not (FOREIGN), or gtensor means something else (EXCLUDED). Cases are generated when first asked for (5 s), not
while pytest collects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import gtensor as gt
from gtensor.errors import DTypeError, TraceError
from gtensor.types import as_dtype
from tests.onnx_cases import Case, cases
from tests.onnx_networks import OPERATORS

AT_LEAST = 1043
"""How many cases run, at least; their number must not shrink unseen."""

BATCH = 24
"""How many cases are compiled as one function, each giving its own results."""

TRAINING = "draws with NumPy's generator of 2008, gt.nn.dropout with gtensor's own"
EMPTY = "NumPy and gtensor refuse the largest and the smallest element of nothing, ONNX gives the dtype's limit"
PLACES = "other places than PyTorch's, which gt.nn.interpolate follows"
UNSIZED = "its places depend on the size before rounding, PyTorch's on the size that the result has"
FILTERED = "no antialiasing filter in gt.nn.interpolate"
KERNEL = "another cubic kernel than PyTorch's -0.75, or one that leaves out what is beyond the edge"
BY_AXIS = "the standard's unique_* have no axis and give sorted elements"

EXCLUDED = {
    "test_training_dropout": TRAINING,
    "test_training_dropout_mask": TRAINING,
    "test_training_dropout_default*": TRAINING,
    "test_reduce_max_empty_set*": EMPTY,
    "test_reduce_min_empty_set": EMPTY,
    "test_lstm_with_peepholes": "gt.nn.LSTM is PyTorch's, without peepholes",
    "test_resize_tf_crop_and_resize*": PLACES,
    "test_resize_*half_pixel_symmetric": PLACES,
    "test_resize_*cubic_asymmetric": PLACES,
    "test_resize_*nearest_floor_align_corners": PLACES,
    "test_resize_*nearest_round_prefer_ceil_asymmetric": PLACES,
    "test_resize_*nearest_ceil_half_pixel": PLACES,
    "test_resize_*linear_pytorch_half_pixel": "one element is the first one, in PyTorch today it is the middle",
    "test_resize_downsample_scales_*_align_corners": UNSIZED,
    "test_resize_*antialias": FILTERED,
    "test_resize_*exclude_outside": KERNEL,
    "test_unique_sorted_with*_axis*": BY_AXIS,
    "test_unique_not_sorted_without_axis": BY_AXIS,
}
"""Cases of operators that gtensor has which mean something else, by pattern."""

FOREIGN = {
    "float8*": "8-bit floats",
    "float4*": "4-bit floats",
    "int[24]": "integers of less than a byte",
    "uint[24]": "integers of less than a byte",
    "object": "strings",
    "list": "a sequence of arrays",
}
"""Dtypes (or classes) of onnx that gtensor has not, and is not to have, by pattern."""

WORDS = "strings are no arrays of numbers"
SEQUENCES = "sequences and optional values are Python's own in gtensor"
QUANTIZED = "quantization: an integer with a scale and a zero point is no dtype of gtensor"
GRAPHS = "holds graphs as attributes; gt.cond, gt.while_loop and gt.scan take functions"
RANDOM = "draws numbers of its own"
SPECTRUM = "needs complex numbers"
TREES = "of classical machine learning"
VISION = "of computer vision, without a function in gtensor"
TRAINERS = "an optimizer as one operator, with other formulas than gt.optim has from PyTorch"
CACHES = "attention of the preview opset, without a function in gtensor"

ABSENT = {
    "Adagrad": TRAINERS, "Adam": TRAINERS, "ArrayFeatureExtractor": TREES, "Bernoulli": RANDOM,
    "Binarizer": TREES, "BitCast": "an array's bytes as another dtype: tensors have no storage to look at",
    "BlackmanWindow": "no window functions", "CausalConvWithState": CACHES, "CenterCropPad": VISION, "Col2Im": VISION,
    "ConvInteger": QUANTIZED, "DFT": SPECTRUM, "DeformConv": VISION, "DequantizeLinear": QUANTIZED,
    "DynamicQuantizeLinear": QUANTIZED, "FlexAttention": CACHES,
    "HammingWindow": "no window functions", "HannWindow": "no window functions", "If": GRAPHS, "ImageDecoder": VISION,
    "LabelEncoder": WORDS, "LinearAttention": CACHES, "Loop": GRAPHS, "MatMulInteger": QUANTIZED, "MaxUnpool": VISION,
    "MelWeightMatrix": SPECTRUM, "Momentum": TRAINERS, "NonMaxSuppression": VISION, "OptionalGetElement": SEQUENCES,
    "OptionalHasElement": SEQUENCES, "QLinearConv": QUANTIZED, "QLinearMatMul": QUANTIZED,
    "QuantizeLinear": QUANTIZED, "RegexFullMatch": WORDS, "RoiAlign": VISION, "STFT": SPECTRUM, "Scan": GRAPHS,
    "SequenceInsert": SEQUENCES, "SequenceMap": SEQUENCES, "SplitToSequence": SEQUENCES, "StringConcat": WORDS,
    "StringNormalizer": WORDS, "StringSplit": WORDS, "TfIdfVectorizer": WORDS, "TreeEnsemble": TREES,
}  # fmt: skip
"""Operators that gtensor does not have."""


def excluded(case: Case) -> bool:
    return any(fnmatchcase(case.name, pattern) for pattern in EXCLUDED)


@functools.cache
def lacking() -> frozenset[str]:
    """The dtypes of all cases that gtensor has not."""
    every = {name for group in cases().values() for case in group for name in case.kinds}
    return frozenset(name for name in every if not known(name))


def known(name: str) -> bool:
    """Whether a dtype of this name is one of gtensor's."""
    try:
        return as_dtype(name).name == name
    except DTypeError:
        return False


def runs(operator: str) -> list[Case]:
    """The cases of an operator that are run."""
    return [case for case in cases()[operator] if not case.kinds & lacking() and not excluded(case)]


def traced(case: Case) -> list[Any]:
    """The inputs that do not decide shapes."""
    fixed = OPERATORS[case.operator].fixed
    return [gt.asarray(x) for i, x in enumerate(case.inputs) if x is not None and i not in fixed]


def run(case: Case, given: Sequence[Any]) -> list[Any]:
    """The outputs that are compared."""
    operator, values = OPERATORS[case.operator], iter(given)
    inputs = [x if x is None or i in operator.fixed else next(values) for i, x in enumerate(case.inputs)]
    found = operator.call(case.attributes, *inputs)
    outputs = found if isinstance(found, tuple) else (found,)
    return [output for output, wanted in zip(outputs, case.wanted, strict=False) if wanted]


def compare(case: Case, found: Sequence[Any]) -> None:
    """As onnx's own runner does: bfloat16 is right to two of its units."""
    assert len(found) == len(case.outputs)
    for output, wanted in zip(map(np.asarray, found), case.outputs, strict=True):
        assert (output.dtype, output.shape) == (wanted.dtype, wanted.shape)
        rtol = case.rtol
        if wanted.dtype.name == "bfloat16":
            output, wanted, rtol = output.astype(np.float32), wanted.astype(np.float32), 2**-6
        np.testing.assert_allclose(output, wanted, rtol=rtol, atol=case.atol)


def report(group: Sequence[Case], results: Sequence[Sequence[Any]]) -> None:
    """Fail with the names of all cases that are wrong."""
    wrong = []
    for case, found in zip(group, results, strict=True):
        try:
            compare(case, found)
        except AssertionError as error:
            wrong.append(f"{case.name}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_eager(operator):
    group = runs(operator)
    report(group, [run(case, traced(case)) for case in group])


def all_of(group: Sequence[Case]) -> Callable[..., Any]:
    """Several cases as one function of the inputs of each."""
    return lambda inputs: [run(case, given) for case, given in zip(group, inputs, strict=True)]


TRACED = [name for name, operator in OPERATORS.items() if operator.traced]
TOGETHER = [TRACED[i : i + 8] for i in range(0, len(TRACED), 8)]


@pytest.mark.parametrize("operators", TOGETHER, ids=lambda names: f"{names[0]}-{names[-1]}")
def test_compiled(operators):
    every = [case for operator in operators for case in runs(operator)]
    for first in range(0, len(every), BATCH):
        group = every[first : first + BATCH]
        report(group, gt.compile(all_of(group))([traced(case) for case in group]))


@pytest.mark.parametrize("operator", sorted(set(OPERATORS) - set(TRACED)))
def test_refused_while_tracing(operator):
    for case in runs(operator):
        with pytest.raises(TraceError, match="depends on values"):
            gt.compile(lambda *inputs, case=case: run(case, inputs))(*traced(case))


def test_every_operator_is_there_or_absent():
    assert sorted(cases()) == sorted([*OPERATORS, *ABSENT])


def test_each_exclusion_has_its_case():
    ours = [case for operator in OPERATORS for case in cases()[operator]]
    matched = {p: [c for c in ours if fnmatchcase(c.name, p)] for p in EXCLUDED}
    assert not [p for p, found in matched.items() if not any(not c.kinds & lacking() for c in found)]
    assert not {name for name in lacking() if not any(fnmatchcase(name, p) for p in FOREIGN)}
    assert not [p for p in FOREIGN if not any(fnmatchcase(name, p) for name in lacking())]


def test_so_many_cases_run():
    assert sum(len(runs(operator)) for operator in OPERATORS) >= AT_LEAST
    assert all(runs(operator) for operator in OPERATORS)
