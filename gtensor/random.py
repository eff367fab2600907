"""Random numbers from explicit keys: the same key gives the same numbers, in any order, eagerly and compiled.

A key is two int32 words, made of a seed and passed on by `split` and `fold_in`. Each element of an array is the
hash of its place under the key (Threefry-2x32, 20 rounds: Salmon, Moraes, Dror and Shaw, Parallel Random Numbers:
As Easy as 1, 2, 3, 2011), so nothing is remembered from draw to draw and bits depend on neither platform nor
threads. Names, signatures and bits are JAX's. Law: keys, bits, uniform, bernoulli, randint and permutation are
bit-equal eager and compiled; the others agree to what each states, and with JAX, which rounds the bits, to 2e-6.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from .errors import DTypeError, OptionError, ShapeError
from .ops.arithmetic import maximum, minimum, where
from .ops.assemble import stack
from .ops.create import tensor, zeros
from .ops.index import take
from .ops.layout import as_shape, broadcast_to, reshape
from .ops.reduce import argmax
from .ops.sort import argsort
from .ops.statistics import floating
from .ops.transcendental import erfc, log, log1p
from .quantile import normal_quantile
from .tensor import STATE, Tensor, apply, as_tensor, cast, concrete
from .types import (
    Dim,
    DType,
    Shape,
    as_dtype,
    bfloat16,
    bool_,
    broadcast_shapes,
    extent_bound,
    float16,
    float32,
    float64,
    int32,
    int64,
    normalize_axis,
    resolve,
    shape_size,
    show_shapes,
)

P = ParamSpec("P")

WORD = 2**32
LOWEST, HIGHEST = -(2**31), 2**31 - 1
"""The range of int32. Words are unsigned numbers in it: adding wraps, and shifts to the right are masked."""

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Threefry's constants: the third word of a key makes the exclusive or of the three this number."""


# ---- words -----------------------------------------------------------------------------------------------


def rounds(key0: Any, key1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds on int32 words that wrap: tensors, or NumPy arrays."""
    keys = (key0, key1, key0 ^ key1 ^ PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for left in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << left) | ((x1 >> (32 - left)) & ((1 << left) - 1))) ^ x0
        x0, x1 = x0 + keys[(i + 1) % 3], x1 + keys[(i + 2) % 3] + (i + 1)
    return x0, x1


def threefry(key: Tensor, high: Any, low: Any) -> tuple[Tensor, Tensor]:
    """Both words of the hash of a counter. Outside a trace the rounds run on NumPy arrays, without an equation each."""
    words = [key[0], key[1], cast(as_tensor(high), int32), cast(as_tensor(low), int32)]
    if STATE.scope is None and all(word.data is not None for word in words):
        with np.errstate(over="ignore"):
            x0, x1 = rounds(*(word.numpy() for word in words))
        return concrete(np.asarray(x0)), concrete(np.asarray(x1))
    x0, x1 = rounds(*words)
    return x0, x1


def _places(shape: Shape) -> Tensor:
    """The number of each element in row-major order: a counter per axis, so that it fuses in the array's own shape."""
    if not all(shape):
        return zeros(shape, int32)
    total, stride = zeros(shape, int32), 1
    for axis in reversed(range(len(shape))):
        if shape[axis] != 1:
            line = apply("iota", shape=shape, axis=axis, dtype=int32) * stride
            total = line if stride == 1 else total + line
        stride *= extent_bound(shape[axis])
    return total


def _words(key: Any, shape: Any, what: str) -> tuple[Tensor, Tensor]:
    """Two words for each element of an array."""
    extents = as_shape(shape)
    if any(extent_bound(n) < 0 for n in extents):
        raise ShapeError(f"{what}: {show_shapes([extents])} has a negative extent")
    if math.prod(map(extent_bound, extents)) > HIGHEST:
        raise ShapeError(f"{what}: {show_shapes([extents])} has more than {HIGHEST} elements")
    return threefry(_key(key, what), 0, _places(extents))


def _key(key: Any, what: str) -> Tensor:
    """The key as a tensor; raises DTypeError or ShapeError for anything else."""
    words = as_tensor(key)
    type_ = resolve(words.type)
    if type_.shape == (2,) and type_.dtype == int32:
        return words
    message = f"{what}: the key is {type_}, not the two words i32[2] of a key"
    if type_.shape == () and not type_.dtype.floating:
        raise DTypeError(message, hint="a seed is no key: make one by gt.random.key(seed)")
    if type_.ndim > 1 and type_.shape[-1] == 2 and type_.dtype == int32:
        raise ShapeError(message, hint="take one of these keys: keys[0]")
    raise (DTypeError if type_.dtype != int32 else ShapeError)(message, hint="keys come from gt.random.key and split")


def _signed(word: int) -> int:
    """The int32 with the bits of an unsigned word."""
    return (word - LOWEST) % WORD + LOWEST


def _halves(seed: Any, what: str) -> tuple[Any, Any]:
    """The high and the low 32 bits of an integer."""
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise OptionError(f"{what}: {seed} has more than 64 bits")
        return _signed(int(seed) >> 32), _signed(int(seed))
    number = as_tensor(seed)
    if number.type.shape != () or number.type.dtype.floating or number.type.dtype == bool_:
        raise DTypeError(f"{what} takes an integer, not {resolve(number.type)}")
    wide = cast(number, int64)
    return cast(wide >> 32, int32), cast(wide, int32)


# ---- keys and bits ---------------------------------------------------------------------------------------


def key(seed: Any) -> Tensor:
    """The key of a seed: its high and its low 32 bits, as int32[2].

    seed: a Python int of at most 64 bits, or an integer scalar, traced or not. Raises OptionError for a longer
    one, DTypeError for anything else.

    >>> import gtensor as gt
    >>> gt.random.key(42)
    Tensor([ 0, 42], dtype=int32)
    """
    high, low = _halves(seed, "key")
    if isinstance(high, int):
        return tensor(np.array([high, low], np.int32))
    return stack([high, low])


def split(key: Any, num: Any = 2) -> Tensor:
    """`num` new keys, int32[num, 2], whose numbers have nothing to do with each other or with the key's own.

    key: one key; num: a number, or a shape (*num, 2) of keys. A key that was split is not to be used again.
    Raises ShapeError and DTypeError for what is no key.

    >>> import gtensor as gt
    >>> first, second = gt.random.split(gt.random.key(0))
    >>> gt.random.uniform(first), gt.random.uniform(second)
    (Tensor(0.8423141, dtype=float32), Tensor(0.00729382, dtype=float32))
    """
    return stack(_words(key, num, "split"), axis=-1)


def fold_in(key: Any, data: Any) -> Tensor:
    """The key with a number mixed in: one for each step of a loop, layer of a model, or worker.

    data: an integer, traced or not. Raises as `key` does, and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.fold_in(gt.random.key(42), 7)
    Tensor([-1747954385,  1371500959], dtype=int32)
    """
    return stack(threefry(_key(key, "fold_in"), *_halves(data, "fold_in")))


def bits(key: Any, shape: Any = (), dtype: Any = int32) -> Tensor:
    """Random bits: every int32 (or int64) is equally likely.

    Raises DTypeError for another dtype, ShapeError for more than 2**31 - 1 elements, and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.bits(gt.random.key(42), (2,))
    Tensor([ 2098992034, -1375260455], dtype=int32)
    """
    target = as_dtype(dtype)
    if target not in (int32, int64):
        raise DTypeError(f"bits: the dtype must be int32 or int64, not {target}")
    high, low = _words(key, shape, "bits")
    return high ^ low if target == int32 else (cast(high, int64) << 32) | (cast(low, int64) & (WORD - 1))


def _float(dtype: Any, what: str) -> DType:
    """The dtype, which must be floating."""
    target = as_dtype(dtype)
    if not target.floating:
        raise DTypeError(f"{what}: the dtype must be a floating one, not {target}")
    return target


def _drawn_wide(draw: Callable[P, Tensor]) -> Callable[P, Tensor]:
    """The same numbers as float32 for a dtype of 16 bits, each rounded to it."""
    signature = inspect.signature(draw)

    @functools.wraps(draw)
    def call(*args: P.args, **kwargs: P.kwargs) -> Tensor:
        given = signature.bind(*args, **kwargs)
        target = as_dtype(given.arguments.get("dtype", float32))
        if not target.stored:
            return draw(*args, **kwargs)
        given.arguments["dtype"] = float32
        return cast(draw(*given.args, **given.kwargs), target)

    return call


# ---- from bits alone -------------------------------------------------------------------------------------


_DIGITS = {float32: 23, float16: 10, bfloat16: 7}
"""Bits behind the point of a uniform number, so that none becomes 1."""


def uniform(key: Any, shape: Any = (), dtype: Any = float32, minval: Any = 0.0, maxval: Any = 1.0) -> Tensor:
    """Uniform numbers in [minval, maxval), exact multiples of 2**-23 of the width above minval.

    float64: of 2**-52, float16: 2**-10, bfloat16: 2**-7.

    minval, maxval: numbers or arrays that broadcast to shape, and have gradients. With bounds other than 0 and 1 a
    product and a sum are rounded, which may give maxval. Raises OptionError for numbers that are no interval,
    ShapeError and DTypeError for other arguments that do not fit, and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.uniform(gt.random.key(42), (3,))
    Tensor([0.48870957, 0.6797972 , 0.6162715 ], dtype=float32)
    """
    target, extents = _float(dtype, "uniform"), as_shape(shape)
    high, low = _words(key, extents, "uniform")
    if target in _DIGITS:
        digits = _DIGITS[target]
        numbers = cast(cast(((high ^ low) >> 32 - digits) & (2**digits - 1), float32) * 2.0**-digits, target)
    else:
        upper, lower = (high >> 6) & (2**26 - 1), ((high & 63) << 20) | ((low >> 12) & (2**20 - 1))
        numbers = cast(upper, float64) * 2.0**-26 + cast(lower, float64) * 2.0**-52
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)):
        if not minval <= maxval:
            raise OptionError(f"uniform: minval {minval} is not below maxval {maxval}")
        scaled = numbers * (maxval - minval)
        return scaled + minval if minval else scaled
    first, last = (broadcast_to(cast(floating(bound), target), extents) for bound in (minval, maxval))
    return numbers * (last - first) + first


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Tensor:
    """True with probability p, exact to 2**-23 (for a float64 array p to 2**-52).

    p: a number or an array of probabilities; shape: that of p by default, else one that p broadcasts to. Raises
    OptionError for a number outside [0, 1], and for what is no key as elsewhere.

    >>> import gtensor as gt
    >>> gt.random.bernoulli(gt.random.key(0), 0.5, (5,))
    Tensor([False, False,  True,  True, False], dtype=bool)
    """
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise OptionError(f"bernoulli: p must be in [0, 1], not {p}")
    chance = floating(p)
    extents = chance.type.shape if shape is None else as_shape(shape)
    dtype = resolve(chance.type).dtype
    return uniform(key, extents, dtype) < broadcast_to(cast(chance, dtype), extents)


def _product_high(x: Tensor, y: Any) -> Tensor:
    """The high word of the product of two unsigned words, by halves."""
    x1, x0, y1, y0 = (x >> 16) & 0xFFFF, x & 0xFFFF, (y >> 16) & 0xFFFF, y & 0xFFFF
    crossed = x1 * y0 + ((x0 * y0 >> 16) & 0xFFFF)
    return x1 * y1 + ((crossed >> 16) & 0xFFFF) + ((x0 * y1 + (crossed & 0xFFFF) >> 16) & 0xFFFF)


def _bound(bound: Any) -> Any:
    """A bound of integers as a number, or as an int32 tensor: greater ones are drawn to its range."""
    if isinstance(bound, (int, np.integer)) and not isinstance(bound, bool):
        if not LOWEST <= bound <= HIGHEST + 1:
            raise OptionError(f"randint: the bound {bound} is not in [-2**31, 2**31]")
        return int(bound)
    given = as_tensor(bound)
    if given.type.dtype.floating or given.type.dtype == bool_:
        raise DTypeError(f"randint: bounds are integers, not {resolve(given.type)}")
    return cast(minimum(maximum(given, LOWEST), HIGHEST), int32) if given.type.dtype == int64 else cast(given, int32)


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int32) -> Tensor:
    """Integers in [minval, maxval), each as likely as the others to one part in 2**32.

    minval, maxval: numbers in [-2**31, 2**31], or arrays of integers that broadcast to shape, whose elements are
    clipped to int32's range; dtype: int32 or int64. Raises OptionError for numbers that are an empty interval (where
    arrays make one, the result is minval), DTypeError for bounds that are no integers, and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.randint(gt.random.key(0), (6,), 1, 7)
    Tensor([3, 2, 6, 4, 4, 3], dtype=int32)
    """
    target, extents = as_dtype(dtype), as_shape(shape)
    if target not in (int32, int64):
        raise DTypeError(f"randint: the dtype must be int32 or int64, not {target}")
    first, last = _bound(minval), _bound(maxval)
    high, low = _words(key, extents, "randint")
    if isinstance(first, int) and isinstance(last, int):
        if first >= last:
            raise OptionError(f"randint: there is no integer in [{first}, {last})")
        count: Any = last - first
    else:
        first, last = (broadcast_to(cast(as_tensor(b), int32), extents) for b in (first, last))
        count = where(first < last, last - first, 0)
    if isinstance(count, int) and count == WORD:
        return cast(high + first, target)
    count = _signed(count) if isinstance(count, int) else count
    # the high word of (high, low) * count: what the low word carries into it is an unsigned comparison
    carried = _product_high(low, count)
    lowest = high * count + carried
    offset = _product_high(high, count) + cast((lowest ^ LOWEST) < (carried ^ LOWEST), int32)
    return cast(offset + first, target)


def _order(key: Any, count: int | Dim, what: str) -> Tensor:
    """The places of `count` pairs of random words in ascending order; equal ones keep theirs."""
    first, second = _words(key, (count,), what)
    if STATE.scope is None and first.data is not None:
        return concrete(np.lexsort((second.numpy(), first.numpy())))
    by_second = argsort(second)
    return take(by_second, argsort(take(first, by_second, axis=0)), axis=0)


def _count(n: Any, what: str) -> int:
    """A number of things, which must be a constant."""
    if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 0:
        raise ShapeError(f"{what}: {n} is no constant number of elements")
    return int(n)


def _extent(n: Any, what: str) -> int | Dim:
    """A number of things, which may be known at run time only."""
    return n if isinstance(n, Dim) else _count(n, what)


def permutation(key: Any, x: Any, axis: int = 0) -> Tensor:
    """The slices of x along an axis in random order, each order as likely as any other; of an int the numbers below it.

    Raises ShapeError for a wrong axis.

    >>> import gtensor as gt
    >>> gt.random.permutation(gt.random.key(42), 5)
    Tensor([2, 4, 3, 1, 0], dtype=int64)
    """
    if isinstance(x, (int, np.integer, Dim)):
        return _order(key, _extent(x, "permutation"), "permutation")
    data = as_tensor(x)
    along = normalize_axis(axis, data.ndim)
    return take(data, _order(key, _extent(data.type.shape[along], "permutation"), "permutation"), axis=along)


def choice(key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0) -> Tensor:
    """Slices of a along an axis, drawn at random; of an int the numbers below it.

    shape: how many, in place of the axis; p: the probability of each of them (or a multiple), with replacement only.
    Without replacement the limits are those of `permutation`. Raises OptionError for too many of them.

    >>> import gtensor as gt
    >>> gt.random.choice(gt.random.key(42), gt.tensor([10.0, 20.0, 30.0]), (2,), replace=False)
    Tensor([30., 20.], dtype=float32)
    """
    data = None if isinstance(a, (int, np.integer)) else as_tensor(a)
    extents, along = as_shape(shape), 0 if data is None else normalize_axis(axis, data.ndim)
    count = _count(a if data is None else data.type.shape[along], "choice")
    drawn = shape_size(extents)
    if not replace and p is not None:
        raise OptionError("choice: probabilities need replacement", hint="leave out p or replace=False")
    if count == 0 or (not replace and not (isinstance(drawn, int) and drawn <= count)):
        raise OptionError(f"choice: {drawn} of {count} cannot be drawn" + ("" if replace else " without replacement"))
    if p is not None:
        chances = floating(p)
        if chances.type.shape != (count,):
            raise ShapeError(f"choice: p is {resolve(chances.type)}, which does not fit {count} elements")
        places = categorical(key, log(chances), shape=extents)
    elif replace:
        places = randint(key, extents, 0, count, int64)
    else:
        places = reshape(_order(key, count, "choice")[:drawn], extents)
    return places if data is None else take(data, places, axis=along)


# ---- by logarithms ---------------------------------------------------------------------------------------


def _fraction(high: Tensor, low: Tensor | None = None) -> Tensor:
    """(word + 1/2) / 2**32 of a non-negative word as float32, or of two words as float64: never 0, and rounded once."""
    if low is None:
        return (cast(high, float32) + 0.5) * 2.0**-32
    wide = cast(high, float64) * 2.0**32 + (cast(low ^ LOWEST, float64) + 2.0**31)
    return (wide + 0.5) * 2.0**-64


def _sided(key: Any, shape: Any, dtype: DType, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """A uniform number u in (0, 1) as (u >= 1/2, the part between it and the nearer end, 1/2 less that part).

    The parts are exact in their own right, so that both ends are drawn to the last digit of their dtype.
    """
    high, low = _words(key, shape, what)
    words = [high ^ low] if dtype == float32 else [high, low]
    sign = words[0] >> 31
    near = [word ^ sign for word in words]
    far = [near[0] ^ HIGHEST, *(~word for word in near[1:])]
    upper = words[0] < 0
    return upper, _fraction(*near), _fraction(*far)


def _minus_log(upper: Tensor, part: Tensor) -> Tensor:
    """-log(u): where u is next to 1, from 1 - u."""
    return -where(upper, log1p(-part), log(part))


@_drawn_wide
def normal(key: Any, shape: Any = (), dtype: Any = float32) -> Tensor:
    """Standard normal numbers, by the quantile function of uniform ones of 32 (float64: 64) bits.

    The tails reach 6.33 (9.15) and are as likely as they must be. Relative error of the quantile: below 4e-7
    (float64: 2e-15); eager and compiled agree to that. Raises DTypeError and ShapeError for arguments that do not fit,
    and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.normal(gt.random.key(42), (3,)).numpy().round(4)
    array([-0.0283,  0.4671,  0.2957], dtype=float32)
    """
    target = _float(dtype, "normal")
    upper, part, rest = _sided(key, shape, target, "normal")
    size = normal_quantile(part, rest, 2.0**-33 if target == float32 else 2.0**-65, target)
    return where(upper, size, -size)


@_drawn_wide
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = float32) -> Tensor:
    """Standard normal numbers between two bounds, which may be infinite.

    lower, upper: numbers or arrays, which have gradients; shape: the one they broadcast to by default. An interval
    in a tail is drawn as well as one in the middle, out to 12 (float64: 37), and beyond that is its nearer bound. Eager
    and compiled agree to 1e-6 (float64: 1e-13) of a number, or of 1 if it is smaller. Raises OptionError for numbers
    that are no interval, ShapeError and DTypeError for what does not fit, and for what is no key.

    >>> import gtensor as gt
    >>> gt.random.truncated_normal(gt.random.key(42), 1.0, 2.0, (3,)).numpy().round(3)
    array([1.327, 1.504, 1.44 ], dtype=float32)
    """
    target = _float(dtype, "truncated_normal")
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and not lower < upper:
        raise OptionError(f"truncated_normal: lower {lower} is not below upper {upper}")
    first, last = (cast(floating(bound), target) for bound in (lower, upper))
    extents = broadcast_shapes([first.type.shape, last.type.shape]) if shape is None else as_shape(shape)
    first, last = broadcast_to(first, extents), broadcast_to(last, extents)
    above, part, _ = _sided(key, extents, target, "truncated_normal")
    # from the bound's own side, so that an interval in one tail keeps its digits
    below_first, beyond_first, below_last, beyond_last = (
        0.5 * erfc(bound * sign) for bound in (first, last) for sign in (-math.sqrt(0.5), math.sqrt(0.5))
    )
    width = where(first > 0, beyond_first - beyond_last, below_last - below_first)
    below = below_first + where(above, 1 - part, part) * width
    beyond = beyond_last + where(above, part, 1 - part) * width
    tail = maximum(minimum(below, beyond), float(np.finfo(target.dtype).tiny))
    size = normal_quantile(tail, maximum(0.5 - tail, 0.0), 0.0, target)
    return maximum(minimum(where(below < beyond, -size, size), last), first)


@_drawn_wide
def exponential(key: Any, shape: Any = (), dtype: Any = float32) -> Tensor:
    """Exponential numbers with mean 1, accurate next to 0 and up to 22.8 (float64: 45).

    Eager and compiled agree to 3e-7 (float64: 1e-15), relatively.

    >>> import gtensor as gt
    >>> gt.random.exponential(gt.random.key(42), (3,)).numpy().round(4)
    array([0.6708, 1.1388, 0.9578], dtype=float32)
    """
    upper, part, _ = _sided(key, shape, _float(dtype, "exponential"), "exponential")
    return _minus_log(~upper, part)


@_drawn_wide
def gumbel(key: Any, shape: Any = (), dtype: Any = float32) -> Tensor:
    """Gumbel numbers, between -3.2 and 22.9 (float64: -3.9 and 45.1): -log of exponential ones.

    Eager and compiled agree to 5e-7 (float64: 2e-15) of a number, or of 1 if it is smaller.

    >>> import gtensor as gt
    >>> gt.random.gumbel(gt.random.key(42), (3,)).numpy().round(4)
    array([0.3341, 0.952 , 0.7255], dtype=float32)
    """
    upper, part, _ = _sided(key, shape, _float(dtype, "gumbel"), "gumbel")
    return -log(_minus_log(upper, part))


@_drawn_wide
def laplace(key: Any, shape: Any = (), dtype: Any = float32) -> Tensor:
    """Laplace numbers with scale 1: exponential ones with either sign.

    Eager and compiled agree to 3e-7 (float64: 1e-15), relatively.

    >>> import gtensor as gt
    >>> gt.random.laplace(gt.random.key(42), (3,)).numpy().round(4)
    array([ 0.0228, -0.4457, -0.2647], dtype=float32)
    """
    upper, part, _ = _sided(key, shape, _float(dtype, "laplace"), "laplace")
    size = log(part + part)
    return where(upper, size, -size)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Any = None) -> Tensor:
    """The places of classes, each drawn with probability softmax(logits), as int64.

    logits: [..., classes, ...] with the classes along axis; shape: that of logits without the axis by default, or
    one that ends with it, for several draws each. A class of -inf is never drawn, if there is another. Drawn as the
    largest of logits plus Gumbel numbers: eager and compiled agree but where two are equal to a rounding. Raises
    ShapeError for a shape or axis that does not fit.

    >>> import gtensor as gt
    >>> gt.random.categorical(gt.random.key(0), gt.log(gt.tensor([0.1, 0.0, 0.9])), shape=(5,))
    Tensor([0, 2, 2, 2, 2], dtype=int64)
    """
    scores = floating(logits)
    along = normalize_axis(axis, scores.ndim)
    rows = scores.type.shape[:along] + scores.type.shape[along + 1 :]
    extents = rows if shape is None else as_shape(shape)
    extra = len(extents) - len(rows)
    if extra < 0 or extents[extra:] != rows:
        raise ShapeError(f"categorical: shape {show_shapes([extents])} does not end with {show_shapes([rows])}")
    noise = gumbel(key, (*extents[:extra], *scores.type.shape), resolve(scores.type).dtype)
    return argmax(scores + noise, axis=along + extra)
