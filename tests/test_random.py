"""Random numbers: public vectors, a second Threefry in NumPy, JAX's numbers, distributions, and every way to run.

All keys are fixed, so nothing here is left to chance: a bound on a statistic holds for these numbers or does not.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from scipy import special

import gtensor as gt
from gtensor.errors import DTypeError, OptionError, ShapeError
from gtensor.quantile import normal_quantile
from gtensor.random import rounds
from tests.cases.processes import run
from tests.values import check_derivatives, close, f32, same
from tests.ways import agreed, compiled, eager, evaluated

R = gt.random
KEY = R.key(42)
MANY = 200_000


def i32(data):
    return np.asarray(data, np.uint32).astype(np.int32)


# ---- Threefry -------------------------------------------------------------------------------------------------

VECTORS = [
    (("0", "0"), ("0", "0"), ("6b200159", "99ba4efe")),
    (("ffffffff", "ffffffff"), ("ffffffff", "ffffffff"), ("1cb996fc", "bb002be7")),
    (("13198a2e", "03707344"), ("243f6a88", "85a308d3"), ("c4923a9c", "483df7a0")),
]
"""Key, counter and hash in Random123's kat_vectors, threefry2x32 with 20 rounds."""


@pytest.mark.parametrize("key, counter, expected", VECTORS)
@pytest.mark.parametrize("way", [eager, evaluated, compiled])
def test_public_vectors(way, key, counter, expected):
    words = [i32([int(word, 16)]) for word in (*key, *counter)]
    found = way(lambda a, b, c, d: list(rounds(a, b, c, d)), *words)
    same(np.concatenate(found), i32([int(word, 16) for word in expected]))


def reference(key, count):
    """Both words of the hashes of 0, 1, … count - 1: Threefry as its paper states it, on unsigned words."""
    keys = np.array([*np.asarray(key).view(np.uint32), 0], np.uint32)
    keys[2] = keys[0] ^ keys[1] ^ np.uint32(0x1BD11BDA)
    x = [np.full(count, keys[0]), np.arange(count, dtype=np.uint32) + keys[1]]
    for i, turn in enumerate([13, 15, 26, 6, 17, 29, 16, 24] * 2 + [13, 15, 26, 6]):
        x[0] = x[0] + x[1]
        x[1] = (x[1] << np.uint32(turn) | x[1] >> np.uint32(32 - turn)) ^ x[0]
        if i % 4 == 3:
            s = i // 4 + 1
            x = [x[0] + keys[s % 3], x[1] + keys[(s + 1) % 3] + np.uint32(s)]
    return x


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**63 + 12345])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 1, 3, 4), (0, 3), (33, 31)])
def test_bits_are_the_hashes_of_places(seed, shape):
    key = R.key(seed)
    a, b = reference(key, math.prod(shape))
    same(R.bits(key, shape), (a ^ b).view(np.int32).reshape(shape))
    wide = (a.astype(np.uint64) << np.uint64(32) | b).view(np.int64).reshape(shape)
    same(R.bits(key, shape, "int64"), wide)
    unit = ((a ^ b) >> np.uint32(9)).astype(np.float32) / np.float32(2**23)
    same(R.uniform(key, shape), unit.reshape(shape))
    double = (wide.view(np.uint64) >> np.uint64(12)).astype(np.float64) / 2.0**52
    same(R.uniform(key, shape, gt.float64), double)


def test_bits_depend_on_the_place_only():
    same(R.bits(KEY, (6, 4)), R.bits(KEY, (24,)).reshape(6, 4))
    same(R.bits(KEY, (1000,))[:10], R.bits(KEY, 10))


# ---- JAX ------------------------------------------------------------------------------------------------------

# Made with jax 0.10.2 (CPU), key = jax.random.PRNGKey(42): words viewed as int32, floats as float.hex; the float64
# ones and the seeds beyond 32 bits with JAX_ENABLE_X64=1.
JAX_SEEDS = {
    0: [0, 0],
    42: [0, 42],
    2**31 + 5: [0, -2147483643],
    -1: [-1, -1],
    2**40 + 7: [256, 7],
    2**63 - 1: [2147483647, -1],
    -(2**63): [-2147483648, 0],
}
JAX_SPLIT = [[1832780943, 270669613], [64467757, -1378843660], [-1829035798, 255383827]]
JAX_FOLDED = {0: JAX_SPLIT[0], 7: [-1747954385, 1371500959], 2**31 + 9: [-328055792, -1281447998]}
JAX_BITS = [[2098992034, -1375260455, -1648100871], [-1885421097, 1935504149, -1778692392]]
JAX_BITS_7 = [-1399772917, -109019648, 1300703658, 1906787632, -1155832954]
JAX_BITS_64 = [7871734211187709741, 276886910877598708, 10591095138341673235 - 2**64]
JAX_UNIFORM = """0x1.f470480000000p-2 0x1.5c0e600000000p-1 0x1.3b87f00000000p-1 0x1.1f3d800000000p-1
    0x1.cd75c80000000p-2 0x1.2bf69c0000000p-1"""
JAX_UNIFORM_2_3 = "0x1.c631680000000p-2 0x1.6623f00000000p+0 0x1.14d3d80000000p+0 0x1.9c33800000000p-1"
JAX_UNIFORM_64 = "0x1.b4f8123c40884p-2 0x1.ebd996d6e8400p-7 0x1.25f641d41e71ap-1 0x1.75aad28c6a974p-1"
JAX_UNIFORM_64_2_3 = "0x1.11b0b65a85528p-3 -0x1.ecc9801b9aed8p+0 0x1.bdcf492498382p-1 0x1.a62b0e5f0a7a2p+0"
JAX_BERNOULLI_60 = [1, 0, 0, 1, 1, 1, 1, 0, 0, 0]
JAX_CATEGORICAL_20_30_50 = [2, 2, 2, 2, 0, 0, 1, 2, 1, 2, 0, 0]
JAX_NORMAL_64 = [-0.18471174528191162, -2.169824560397754, 0.18693555179382582, 0.6122653570510959]
JAX_NUMBERS = {
    "normal": [-0.028304616, 0.46713185, 0.29570296, 0.15354592, -0.12403282, 0.21692315, -1.440879, 0.75585991],
    "exponential": [0.67081749, 1.1388006, 0.95782, 0.82329249, 0.59900969, 0.88156533, 0.077755541, 1.4922478],
    "gumbel": [0.33409339, 0.95201945, 0.72553056, 0.54817152, 0.22680496, 0.62611592, -0.95274276, 1.3675897],
    "laplace": [0.022839652, -0.44565356, -0.26467291, -0.13014539, 0.10392901, -0.18841822, 1.8996637, -0.79910076],
}
JAX_TRUNCATED = [0.14770006, 0.56844491, 0.42102551, 0.29997, 0.069113821, 0.35376337, -0.77255177, 0.81748801]


def hexed(text):
    return np.array([float.fromhex(word) for word in text.split()])


def test_keys_are_jaxs():
    for seed, words in JAX_SEEDS.items():
        same(R.key(seed), i32(np.array(words, np.int64).astype(np.uint32)))
    same(R.split(KEY), np.array(JAX_SPLIT[:2], np.int32))
    same(R.split(KEY, 3), np.array(JAX_SPLIT, np.int32))
    for data, words in JAX_FOLDED.items():
        same(R.fold_in(KEY, data), np.array(words, np.int32))


def test_bits_and_uniform_numbers_are_jaxs():
    same(R.bits(KEY, (2, 3)), np.array(JAX_BITS, np.int32))
    same(R.bits(R.key(7), 5), np.array(JAX_BITS_7, np.int32))
    same(R.bits(KEY, 3, gt.int64), np.array(JAX_BITS_64, np.int64))
    same(R.uniform(KEY, (2, 3)), f32(hexed(JAX_UNIFORM)).reshape(2, 3))
    same(R.uniform(KEY, 4, "float64"), hexed(JAX_UNIFORM_64))
    same(R.bernoulli(KEY, 0.6, 10), np.array(JAX_BERNOULLI_60, bool))
    same(R.categorical(KEY, gt.log(gt.tensor([0.2, 0.3, 0.5])), shape=12), np.array(JAX_CATEGORICAL_20_30_50))


def test_scaled_uniform_numbers_are_jaxs_but_for_a_rounding():
    """XLA contracts u * width + minval to one rounding; here product and sum are rounded, eager and compiled."""
    for dtype, rounding, text in ((gt.float32, 2.0**-24, JAX_UNIFORM_2_3), (gt.float64, 2.0**-53, JAX_UNIFORM_64_2_3)):
        found = R.uniform(KEY, 4, dtype, -2, 3).numpy()
        assert (np.abs(found - hexed(text)) <= 5 * rounding).all()


def test_other_numbers_are_jaxs_but_for_the_bits_it_rounds_away():
    for name, numbers in JAX_NUMBERS.items():
        close(getattr(R, name)(KEY, 8), numbers, rtol=2e-6, atol=1e-6)
    close(R.truncated_normal(KEY, -1.0, 2.0, 8), JAX_TRUNCATED, rtol=2e-6, atol=1e-6)
    close(R.normal(KEY, 4, gt.float64), JAX_NORMAL_64, rtol=1e-14, atol=1e-15)


# ---- every way to run -----------------------------------------------------------------------------------------

EXACT = {
    "key": lambda key: R.key(7),
    "split": lambda key: R.split(key, 5),
    "split of a split": lambda key: [R.bits(k, 3) for k in R.split(R.split(key)[1])],
    "fold_in": lambda key: R.fold_in(key, -5),
    "bits": lambda key: R.bits(key, (5, 33)),
    "bits of int64": lambda key: R.bits(key, (5, 33), gt.int64),
    "one number": lambda key: R.uniform(key),
    "no numbers": lambda key: R.uniform(key, (3, 0)),
    "uniform": lambda key: R.uniform(key, (3, 2, 37)),
    "uniform of float64": lambda key: R.uniform(key, (5, 33), gt.float64, -1, 2),
    "uniform between": lambda key: R.uniform(key, (5, 33), minval=-3.0, maxval=gt.arange(33, dtype="float32")),
    "bernoulli": lambda key: R.bernoulli(key, 0.3, (5, 33)),
    "bernoulli of float64": lambda key: R.bernoulli(key, gt.linspace(0, 1, 33, dtype="float64")),
    "randint": lambda key: R.randint(key, (5, 33), -7, 1_000_000_007),
    "randint of all": lambda key: R.randint(key, (65,), -(2**31), 2**31, gt.int64),
    "randint between": lambda key: R.randint(key, (9,), gt.arange(9) - 5, gt.tensor(3)),
    "permutation": lambda key: R.permutation(key, 129),
    "permutation of columns": lambda key: R.permutation(key, gt.arange(24).reshape(2, 12), axis=1),
    "choice": lambda key: R.choice(key, 10, (2, 3)),
    "choice without replacement": lambda key: R.choice(key, gt.arange(50).reshape(5, 10), (2, 2), False, axis=1),
}


@pytest.mark.parametrize("name", EXACT)
def test_bits_are_equal_eager_traced_and_compiled(name):
    agreed(EXACT[name], KEY, rtol=0, atol=0)


CLOSE = {
    "normal": (lambda key, dtype: R.normal(key, (5, 331), dtype), 4e-7, 2e-15),
    "truncated_normal": (lambda key, dtype: R.truncated_normal(key, -1, 2, (5, 331), dtype), 1e-6, 1e-13),
    "truncated to a tail": (lambda key, dtype: R.truncated_normal(key, 5, gt.inf, (5, 331), dtype), 1e-6, 1e-13),
    "exponential": (lambda key, dtype: R.exponential(key, (5, 331), dtype), 3e-7, 1e-15),
    "gumbel": (lambda key, dtype: R.gumbel(key, (5, 331), dtype), 5e-7, 2e-15),
    "laplace": (lambda key, dtype: R.laplace(key, (5, 331), dtype), 3e-7, 1e-15),
}


@pytest.mark.parametrize("name", CLOSE)
def test_the_other_numbers_agree_to_what_is_stated(name):
    draw, *bounds = CLOSE[name]
    for dtype, bound in zip((gt.float32, gt.float64), bounds, strict=True):
        absolute = bound if name[:3] in ("gum", "tru") else 0
        agreed(lambda key, dtype=dtype: draw(key, dtype), KEY, rtol=bound, atol=absolute)


def test_categories_agree():
    logits = gt.tensor(np.log(f32([[0.1, 0.2, 1e-30, 0.7], [0.4, 1e-30, 0.3, 0.3]])))
    agreed(lambda key: R.categorical(key, logits), KEY)
    agreed(lambda key: R.categorical(key, logits, axis=0, shape=(50, 4)), KEY)
    agreed(lambda key: R.choice(key, 4, (50,), p=gt.softmax(logits[0])), KEY)


def test_seeds_may_be_traced():
    for seed in (3, -3, np.int32(-3), np.int64(2**40 + 3), np.uint8(200)):
        agreed(lambda seed: [R.key(seed), R.fold_in(KEY, seed)], gt.tensor(seed), rtol=0, atol=0)
        same(R.key(gt.tensor(seed)), R.key(int(seed)))
        same(R.fold_in(KEY, gt.tensor(seed)), R.fold_in(KEY, int(seed)))


def test_a_run_time_extent_draws_the_first_rows():
    f = gt.compile(lambda key, x: (R.uniform(key, x.shape), gt.nn.dropout(x, 0.5, key)))
    call = f.trace(gt.spec(2, gt.int32), gt.spec(("B", 5), max={"B": 9})).lower().compile()
    for rows in (1, 4, 9):
        drawn, dropped = call(KEY.numpy(), np.ones((rows, 5), np.float32))
        same(drawn, R.uniform(KEY, (rows, 5)))
        same(dropped, gt.nn.dropout(gt.ones((rows, 5)), 0.5, KEY))


@pytest.mark.parametrize("shape", [(1000, 1000), (64, 128)])
def test_uniform_numbers_are_one_kernel_on_vectors(shape):
    """Beside it stands one of two operations on the key. All twenty rounds are on vectors, and so is what is stored."""
    f = gt.compile(lambda key: R.uniform(key, shape))
    same(f(KEY), R.uniform(KEY, shape))
    of_key, numbers = f.kernels
    assert (of_key.flops, numbers.bytes_written) == (2, 4 * math.prod(shape))
    assert len(re.findall(r"const gt_v_i32 t\d+ =", f.c_source)) > 120
    assert len(re.findall(r"const int32_t t\d+ =", f.c_source)) < 10
    assert re.search(r"gt_store_(upto_)?f32\(", f.c_source)


DRAWN = """
import gtensor as gt
key = gt.random.key(2**33 + 9)
def draw(key):
    a, b, c = gt.random.split(key, 3)
    return gt.random.bits(a, 4), gt.random.uniform(b, 3), gt.random.normal(c, 3), gt.random.permutation(c, 7)
print([x.tolist() for x in draw(key)])
print([x.tolist() for x in gt.compile(draw)(key)])
"""


def test_another_process_draws_the_same_bits(tmp_path):
    first, second = (run(DRAWN, GT_CACHE=tmp_path / "cache", PYTHONHASHSEED=seed) for seed in "12")
    fresh = run(DRAWN, GT_CACHE=tmp_path / "fresh")
    assert first == second == fresh
    eager_line, compiled_line = first.splitlines()
    assert eager_line.split("]")[:2] == compiled_line.split("]")[:2]
    assert eager_line.split("]")[3:] == compiled_line.split("]")[3:]
    here = R.split(R.key(2**33 + 9), 3)
    assert str([R.bits(here[0], 4).tolist()])[1:-1] in eager_line


# ---- distributions --------------------------------------------------------------------------------------------


def distance(sample, cdf):
    """Kolmogorov's: the largest difference of the two distribution functions, times the root of the count."""
    x = np.sort(np.asarray(sample, np.float64).ravel())
    below = np.arange(x.size) / x.size
    gap = np.maximum(cdf(x) - below, below + 1 / x.size - cdf(x))
    return gap.max() * math.sqrt(x.size)


def moments(sample, mean, variance, kurtosis):
    """Mean and variance within four of their own standard deviations."""
    x = np.asarray(sample, np.float64).ravel()
    assert abs(x.mean() - mean) < 4 * math.sqrt(variance / x.size)
    assert abs(x.var() - variance) < 4 * variance * math.sqrt((kurtosis - 1) / x.size)


NORMAL_1_2 = special.ndtr(2.0) - special.ndtr(-1.0)
DISTRIBUTIONS = {
    "uniform": (R.uniform, lambda x: x, 1 / 2, 1 / 12, 1.8),
    "normal": (R.normal, special.ndtr, 0, 1, 3),
    "exponential": (R.exponential, lambda x: -np.expm1(-x), 1, 1, 9),
    "gumbel": (R.gumbel, lambda x: np.exp(-np.exp(-x)), np.euler_gamma, math.pi**2 / 6, 5.4),
    "laplace": (R.laplace, lambda x: np.where(x < 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2), 0, 2, 6),
    "truncated_normal": (
        lambda key, shape, dtype: R.truncated_normal(key, -1.0, 2.0, shape, dtype),
        lambda x: (special.ndtr(x) - special.ndtr(-1.0)) / NORMAL_1_2,
        (math.exp(-0.5) - math.exp(-2)) / math.sqrt(2 * math.pi) / NORMAL_1_2, 0.5197, 2.3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64])
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(name, dtype):
    """Kolmogorov's distance is above 1.95 for one sample in a thousand."""
    draw, cdf, *expected = DISTRIBUTIONS[name]
    sample = draw(KEY, (MANY,), dtype)
    assert sample.dtype == dtype and np.isfinite(sample.numpy()).all()
    assert distance(sample, cdf) < 1.95
    moments(sample, *expected)


def test_a_wrong_distribution_is_found():
    sample = R.normal(KEY, (MANY,)).numpy()
    assert distance(sample * 1.02, special.ndtr) > 1.95
    assert distance(R.uniform(KEY, (MANY,)).numpy() ** 1.02, lambda x: x) > 1.95
    with pytest.raises(AssertionError):
        moments(sample + 0.02, 0, 1, 3)


def test_every_bit_is_fair_and_none_follows_another():
    words = R.bits(KEY, (MANY // 32,)).numpy().view(np.uint32)
    ones = np.unpackbits(words.view(np.uint8)).reshape(-1, 32)
    bound = 4.5 / math.sqrt(len(words))
    assert (np.abs(ones.mean(0) - 0.5) * 2 < bound).all()
    signs = ones * 2.0 - 1
    together = signs.T @ signs / len(words)
    assert (np.abs(together - np.eye(32)) < bound).all()
    assert abs((signs[1:] * signs[:-1]).mean()) * math.sqrt(signs.size) < 4.5


@pytest.mark.parametrize("count", [16])
def test_keys_are_independent(count):
    keys = [*R.split(KEY, count), *(R.fold_in(KEY, i + 100) for i in range(count)), KEY]
    rows = np.stack([R.uniform(k, 4000).numpy() for k in keys]).astype(np.float64)
    correlations = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlations).max() * math.sqrt(4000) < 4.5
    assert len({tuple(k.tolist()) for k in keys}) == len(keys)


def test_tails_are_full():
    """Numbers beyond 4 and 4.5 are as many as they must be; the farthest that 32 and 64 bits reach are finite."""
    x = np.abs(R.normal(KEY, (4_000_000,)).numpy())
    for bound in (4.0, 4.5):
        expected = 2 * special.ndtr(-bound) * x.size
        assert abs((x > bound).sum() - expected) < 4 * math.sqrt(expected)
    for dtype, least, far in ((gt.float32, 2.0**-33, 6.338), (gt.float64, 2.0**-65, 9.155)):
        reach = normal_quantile(*(gt.tensor(v, dtype) for v in (least, 0.5 - least)), least, dtype).item()
        assert abs(reach + special.ndtri(least)) < 1e-5 and reach == pytest.approx(far, abs=1e-3)


@pytest.mark.parametrize("dtype, bound, lowest", [(gt.float32, 4e-7, -37.0), (gt.float64, 2e-15, -300.0)])
def test_the_quantile_function_is_accurate(dtype, bound, lowest):
    beyond = np.concatenate([10 ** np.linspace(lowest, -1, 30001), np.linspace(1e-6, 0.4999, 30001)]).astype(dtype)
    inside = (0.5 - beyond.astype(np.longdouble)).astype(dtype)
    found = normal_quantile(gt.tensor(beyond), gt.tensor(inside), 0.0, dtype).numpy()
    close(found, -special.ndtri(beyond.astype(np.float64)), rtol=bound, atol=0)


@pytest.mark.parametrize("lower, upper", [(3.0, 4.0), (-8.0, -7.5), (9.0, gt.inf), (-gt.inf, -9.0), (0.0, 1e-3)])
def test_truncated_normal_numbers_fill_their_interval(lower, upper):
    for dtype in (gt.float32, gt.float64):
        x = R.truncated_normal(KEY, lower, upper, (20_000,), dtype).numpy().astype(np.float64)
        assert ((lower <= x) & (x <= upper)).all()
        sign = -1 if lower > 0 else 1
        ends = special.ndtr([sign * lower, sign * upper])
        assert distance(x, lambda x, s=sign, e=ends: (special.ndtr(s * x) - e[0]) / (e[1] - e[0])) < 1.95
    assert R.truncated_normal(KEY, 50.0, 60.0).item() == 50
    assert R.truncated_normal(KEY, [1.0, 2.0], 3.0).shape == (2,)


def test_bernoulli_and_its_ends():
    p = np.array([0.0, 0.1, 0.5, 1.0], np.float32)
    drawn = R.bernoulli(KEY, p, (50_000, 4)).numpy()
    assert (np.abs(drawn.mean(0) - p) <= 4 * np.sqrt(p * (1 - p) / 50_000)).all()
    assert R.bernoulli(KEY).shape == () and R.bernoulli(KEY, p).shape == (4,)
    same(R.bernoulli(KEY, gt.tensor(0.25), 9), R.bernoulli(KEY, 0.25, 9))


@pytest.mark.parametrize("low, high", [(0, 1), (-3, 4), (0, 1000), (-(2**31), 2**31), (5, 30_000_000)])
def test_randint_is_the_high_word_of_a_product(low, high):
    high_word, low_word = reference(KEY, 1000)
    words = [int(a) << 32 | int(b) for a, b in zip(high_word, low_word, strict=True)]
    expected = [low + (word * (high - low) >> 64) for word in words]
    same(R.randint(KEY, (1000,), low, high), np.array(expected, np.int32))
    same(R.randint(KEY, (1000,), low, high, gt.int64), np.array(expected, np.int64))


def test_randint_carries():
    """Words whose low halves carry into the high one, which random ones almost never do for small counts."""
    rng = np.random.default_rng(0)
    edge = [0, 1, 2**16 - 1, 2**16, 2**31 - 1, 2**31, 2**32 - 2**16, 2**32 - 1]
    x = np.array([*itertools.product(edge, edge), *rng.integers(0, 2**32, (500, 2)).tolist()], np.uint32)
    found = R._product_high(gt.tensor(x[:, 0].view(np.int32)), gt.tensor(x[:, 1].view(np.int32)))
    expected = (x[:, 0].astype(np.uint64) * x[:, 1].astype(np.uint64)) >> np.uint64(32)
    same(found, expected.astype(np.uint32).view(np.int32))


def test_randint_of_arrays():
    low, high = np.array([0, 5, -(2**31), 3, 9]), np.array([1, 7, 2**31 - 1, 3, 2])
    x = R.randint(KEY, (1000, 5), low, high).numpy()
    assert (x >= low).all() and (x[:, :3] < high[:3]).all()
    assert (x[:, 3] == 3).all() and (x[:, 4] == 9).all()
    same(R.randint(KEY, (9,), 0, np.array(7, np.uint8)), R.randint(KEY, (9,), 0, 7))
    same(R.randint(KEY, (9,), 0, np.array(2**40)), R.randint(KEY, (9,), 0, 2**31 - 1))


def test_permutations_are_permutations_and_equally_likely():
    same(np.sort(R.permutation(KEY, 1000)), np.arange(1000))
    same(np.sort(R.permutation(KEY, 100_000)), np.arange(100_000))
    assert R.permutation(KEY, 0).shape == (0,) and R.permutation(KEY, 1).tolist() == [0]
    keys = R.split(KEY, 2400)
    counts = {}
    for key in keys:
        order = tuple(R.permutation(key, 4).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((n - 100) ** 2 / 100 for n in counts.values()) < 49.7  # chi-squared, 23 degrees: one in a thousand
    x = gt.arange(12).reshape(3, 4)
    same(R.permutation(KEY, x, axis=1), x.numpy()[:, R.permutation(KEY, 4).numpy()])
    same(R.permutation(KEY, x), x.numpy()[R.permutation(KEY, 3).numpy()])


def test_equal_words_keep_their_order(monkeypatch):
    """Words made to repeat: eager and compiled orders are those of a stable sort on both words."""
    small = gt.random._words
    monkeypatch.setattr(gt.random, "_words", lambda *args: tuple(word & 3 for word in small(*args)))
    words = [word.numpy() for word in gt.random._words(KEY, (200,), "")]
    expected = sorted(range(200), key=lambda i: (words[0][i], words[1][i]))
    assert agreed(lambda key: R.permutation(key, 200), KEY).tolist() == expected


def test_choice():
    assert set(R.choice(KEY, 3, (100,)).tolist()) == {0, 1, 2}
    assert sorted(R.choice(KEY, 6, (2, 3), replace=False).reshape(6).tolist()) == list(range(6))
    drawn = R.choice(KEY, gt.tensor([10.0, 20.0, 30.0]), (30_000,), p=[0.2, 0.0, 0.8]).numpy()
    assert abs((drawn == 10).mean() - 0.2) < 4 * math.sqrt(0.16 / 30_000) and not (drawn == 20).any()
    assert R.choice(KEY, gt.ones((4, 5)), (2, 3), axis=1).shape == (4, 2, 3)
    assert R.choice(KEY, 5).shape == ()


def test_categories_are_as_likely_as_their_softmax():
    p = np.array([[0.1, 0.2, 0.0, 0.7], [0.25, 0.25, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = f32(np.log(p) + np.array([[3.0], [-40.0]]))
    drawn = R.categorical(KEY, logits, shape=(40_000, 2)).numpy()
    for row in range(2):
        found = np.bincount(drawn[:, row], minlength=4) / 40_000
        assert (np.abs(found - p[row]) <= 4 * np.sqrt(p[row] * (1 - p[row]) / 40_000)).all()
    assert R.categorical(KEY, logits).shape == (2,) and R.categorical(KEY, logits, axis=0).shape == (4,)
    same(R.categorical(KEY, logits.T, axis=0, shape=(9, 2)), R.categorical(KEY, logits.T, 0, (9, 2)))


# ---- derivatives ----------------------------------------------------------------------------------------------


def test_bounds_have_gradients():
    def loss(low, high):
        return gt.sum(R.uniform(KEY, (3, 4), gt.float64, low, high) ** 2)

    unit = R.uniform(KEY, (3, 4), gt.float64).numpy()
    x = unit * 3 - 1
    for way in (lambda f, *a: f(*a), lambda f, *a: gt.compile(f)(*a)):
        low, high = way(gt.grad(loss, (0, 1)), np.float64(-1), np.float64(2))
        close(low, (2 * x * (1 - unit)).sum(), rtol=1e-12)
        close(high, (2 * x * unit).sum(), rtol=1e-12)


def test_bounds_of_truncated_normal_numbers_have_gradients():
    lower = np.array([-1.0, 0.5, 2.0, -3.0])
    check_derivatives(lambda x: R.truncated_normal(KEY, x, 3.0, dtype=gt.float64), lower)
    check_derivatives(lambda x: R.truncated_normal(KEY, -4.0, x, dtype=gt.float64), lower)


def test_noise_is_a_constant_to_the_gradient():
    def loss(mean, deviation):
        return gt.sum((mean + deviation * R.normal(KEY, 5)) ** 2)

    z = R.normal(KEY, 5).numpy()
    grads = gt.compile(gt.grad(loss, (0, 1)))(np.float32(0.5), np.float32(2))
    close(grads[0], (2 * (0.5 + 2 * z)).sum(), rtol=1e-5)
    close(grads[1], (2 * (0.5 + 2 * z) * z).sum(), rtol=1e-5)


# ---- wrong use ------------------------------------------------------------------------------------------------

WRONG = [
    (lambda: R.uniform(0), DTypeError, "uniform: the key is i64[], not the two words i32[2] of a key", "key(seed)"),
    (lambda: R.normal(gt.tensor(3)), DTypeError, "normal: the key is i64[]", "a seed is no key"),
    (lambda: R.bits(R.split(KEY)), ShapeError, "bits: the key is i32[2,2]", "keys[0]"),
    (lambda: R.split([0, 1]), DTypeError, "split: the key is i64[2]", "gt.random.key"),
    (lambda: R.fold_in(gt.zeros(3, gt.int32), 1), ShapeError, "fold_in: the key is i32[3]", "split"),
    (lambda: R.bits(gt.ones(2)), DTypeError, "bits: the key is f32[2]", "split"),
    (lambda: R.key(2**64), OptionError, "more than 64 bits", ""),
    (lambda: R.key(1.5), DTypeError, "key takes an integer, not f32[]", ""),
    (lambda: R.key([1, 2]), DTypeError, "key takes an integer, not i64[2]", ""),
    (lambda: R.key(True), DTypeError, "key takes an integer, not b1[]", ""),
    (lambda: R.bits(KEY, (), gt.float32), DTypeError, "int32 or int64", ""),
    (lambda: R.uniform(KEY, (), gt.int32), DTypeError, "float32 or float64", ""),
    (lambda: R.normal(KEY, (2, -1)), ShapeError, "negative extent", ""),
    (lambda: R.bits(KEY, (2**16, 2**15)), ShapeError, "more than 2147483647 elements", ""),
    (lambda: R.uniform(KEY, minval=2, maxval=1), OptionError, "minval 2 is not below maxval 1", ""),
    (lambda: R.bernoulli(KEY, 1.5), OptionError, "p must be in [0, 1]", ""),
    (lambda: R.randint(KEY, 3, 4, 4), OptionError, "no integer in [4, 4)", ""),
    (lambda: R.randint(KEY, 3, 0, 2**32), OptionError, "the bound 4294967296", ""),
    (lambda: R.randint(KEY, 3, 0.0, 5), DTypeError, "bounds are integers, not f32[]", ""),
    (lambda: R.randint(KEY, 3, 0, 5, gt.float32), DTypeError, "int32 or int64", ""),
    (lambda: R.truncated_normal(KEY, 1, 1), OptionError, "lower 1 is not below upper 1", ""),
    (lambda: R.categorical(KEY, gt.ones((2, 3)), shape=(4,)), ShapeError, "(4,) does not end with (2,)", ""),
    (lambda: R.permutation(KEY, -1), ShapeError, "no constant number", ""),
    (lambda: R.permutation(KEY, gt.ones(3), axis=1), ShapeError, "axis 1", ""),
    (lambda: R.choice(KEY, 3, (4,), replace=False), OptionError, "4 of 3 cannot be drawn without", ""),
    (lambda: R.choice(KEY, 0), OptionError, "cannot be drawn", ""),
    (lambda: R.choice(KEY, 3, (2,), replace=False, p=[0.5, 0.5, 0]), OptionError, "need replacement", "p or"),
    (lambda: R.choice(KEY, 3, p=[0.5, 0.5]), ShapeError, "p is f32[2]", ""),
]


@pytest.mark.parametrize("run, error, message, hint", WRONG)
def test_wrong_use_says_what_to_do(run, error, message, hint):
    with pytest.raises(error, match=re.escape(message)) as caught:
        run()
    assert hint in caught.value.hint
