"""The Python array API standard, version 2024.12, as tables: its signatures, dtypes, and what gtensor leaves out.

`MAIN`, `LINALG`, `INFO` and `METHODS` are the standard's text (data-apis.org/array-api/2024.12). `EXCLUDED` is the one
list of what is left out: each entry with the reason, and with a probe that holds as long as the entry is needed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import gtensor as gt

MAIN = """
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
expand_dims(x, /, axis)
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

LINALG = """
cholesky(x, /, *, upper=False)
cross(x1, x2, /, *, axis=-1)
det(x, /)
diagonal(x, /, *, offset=0)
eigh(x, /)
eigvalsh(x, /)
inv(x, /)
matmul(x1, x2, /)
matrix_norm(x, /, *, keepdims=False, ord='fro')
matrix_power(x, n, /)
matrix_rank(x, /, *, rtol=None)
matrix_transpose(x, /)
outer(x1, x2, /)
pinv(x, /, *, rtol=None)
qr(x, /, *, mode='reduced')
slogdet(x, /)
solve(x1, x2, /)
svd(x, /, *, full_matrices=True)
svdvals(x, /)
tensordot(x1, x2, /, *, axes=2)
trace(x, /, *, offset=0, dtype=None)
vecdot(x1, x2, /, *, axis=-1)
vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""

INFO = """
capabilities(self)
default_device(self)
default_dtypes(self, *, device=None)
devices(self)
dtypes(self, *, device=None, kind=None)
"""

METHODS = """
__array_namespace__(self, /, *, api_version=None)
__dlpack__(self, /, *, stream=None, max_version=None, dl_device=None, copy=None)
__dlpack_device__(self, /)
to_device(self, device, /, *, stream=None)
"""

OPERATORS = """abs add and bool complex eq float floordiv ge getitem gt index int invert le lshift lt matmul mod mul ne
neg or pos pow rshift sub truediv xor radd rand rfloordiv rlshift rmatmul rmod rmul ror rpow rrshift rsub rtruediv
rxor"""

CONSTANTS = {"e": np.e, "inf": np.inf, "nan": np.nan, "newaxis": None, "pi": np.pi}
ATTRIBUTES = "dtype device mT ndim shape size T"

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
"""The standard's dtypes that are not complex."""

KINDS = {
    "bool": "b",
    "integer": "iu",
    "floating": "f",
    "numeric": "iuf",
    "integer or bool": "iub",
    "all": "iufb",
}
"""Kinds of dtypes that the standard says a function takes, as letters of NumPy's kinds."""


def dtypes(kind: str) -> list[str]:
    """The dtypes of a kind."""
    return [name for name in DTYPES if np.dtype(name).kind in KINDS[kind]]


def signatures(text: str) -> dict[str, inspect.Signature]:
    """Signatures by name, from the standard's text."""
    found = {}
    for line in text.strip().splitlines():
        space: dict[str, Callable[..., None]] = {}
        exec(f"def {line}: ...", space)
        name = line.partition("(")[0]
        found[name] = inspect.signature(space[name])
    return found


@dataclass(frozen=True)
class Exclusion:
    """What of the standard is not there, why, and whether that is still so."""

    what: str
    reason: str
    holds: Callable[[], bool]


def refuses(attempt: Callable[[], object], error: type[Exception]) -> Callable[[], bool]:
    """Whether an attempt raises that error."""

    def holds() -> bool:
        try:
            attempt()
        except error:
            return True
        return False

    return holds


def _assign() -> None:
    gt.ones(2)[0] = 1.0


def _others_follow() -> bool:
    x = y = gt.ones(2)
    x += 1
    return y.tolist() == x.tolist()


EXCLUDED = (
    Exclusion(
        "`complex64`, `complex128`, and complex numbers as operands",
        "there are no complex numbers; `real` and `conj` give their operand, `imag` zeros",
        lambda: (
            not {"complex64", "complex128"} & {*gt.__array_namespace_info__().dtypes()}
            and refuses(lambda: gt.ones(2) + 1j, TypeError)()
            and refuses(lambda: gt.asarray([1j]), TypeError)()
        ),
    ),
    Exclusion(
        '`default_dtypes()["complex floating"]`',
        "there are no complex numbers",
        lambda: "complex floating" not in gt.__array_namespace_info__().default_dtypes(),
    ),
    Exclusion("the extension `fft`", "its results are complex", lambda: not hasattr(gt, "fft")),
    Exclusion(
        "`x[key] = value`",
        "a tensor never changes, so that graphs can be differentiated and fused: `x = x.at[key].set(value)`",
        refuses(_assign, TypeError),
    ),
    Exclusion(
        "`copy=True` of a tensor in `asarray`, `astype`, `reshape` and `from_dlpack`",
        "a tensor never changes, so that the tensor itself is as good as a copy",
        lambda: (x := gt.ones(2)) is gt.asarray(x, copy=True) is gt.astype(x, x.dtype) is gt.from_dlpack(x, copy=True),
    ),
    Exclusion(
        "`x.T` of other arrays than matrices, an error",
        "it reverses the axes, as NumPy users expect",
        lambda: gt.ones((2, 3, 4)).T.shape == (4, 3, 2),
    ),
    Exclusion(
        "`x += y` in the memory of x, and its kind",
        "a tensor never changes: the name x is bound to a new one, which other names of the old one do not see",
        lambda: not _others_follow(),
    ),
    Exclusion(
        "`asarray(array, copy=False)` and `from_dlpack(array, copy=False)` of another library's array",
        "whoever holds that array could change the tensor, so its elements are copied: ValueError, BufferError",
        lambda: (
            refuses(lambda: gt.asarray(np.ones(2), copy=False), ValueError)()
            and refuses(lambda: gt.from_dlpack(np.ones(2), copy=False), BufferError)()
        ),
    ),
    Exclusion(
        "`x.__dlpack__(copy=False)` for DLPack before 1.0",
        "such a consumer cannot be told that memory is read-only: BufferError",
        refuses(lambda: gt.ones(2).__dlpack__(copy=False), BufferError),
    ),
    Exclusion(
        "`nonzero`, `unique_all`, `unique_counts`, `unique_inverse`, `unique_values`, `x[mask]`, and `repeat` by an "
        "array, while tracing",
        "the shape of the result would depend on values; eagerly they work",
        refuses(lambda: gt.trace(gt.nonzero, gt.ones(2)), TypeError),
    ),
)
"""What of the standard is left out."""
