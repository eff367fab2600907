"""Linear algebra over stacks of matrices: `gt.linalg`, with the names of the Python array API standard.

What the standard lacks has NumPy's name (`norm`, `lstsq`, `cond`) or that of scipy.linalg and jax.scipy.linalg
(`expm`, `solve_triangular`). Matrices are the last two axes, leading axes broadcast; integers become floats, float32
and float64 stay. Compiled, everything is C of gtensor's own: no BLAS or LAPACK is called. Laws: a matrix with a NaN or
an infinity gives NaN; one without an answer raises `errors.MatrixError`, a numpy.linalg.LinAlgError, from the
evaluator and from the compiled call alike.
"""

from ..ops.contract import matmul
from ..ops.layout import matrix_transpose
from ..ops.products import cross, outer, tensordot, vecdot
from .factors import cholesky, eigh, eigvalsh, qr, svd, svdvals
from .norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from .products import diagonal, expm, matrix_power, trace
from .systems import det, inv, lstsq, pinv, slogdet, solve, solve_triangular

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
