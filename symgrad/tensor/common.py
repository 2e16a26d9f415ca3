"""Functions of tensors that PyTorch and Paddle spell alike: reductions along dims, shapes, products, choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symgrad.frontend.functions import REPLACEMENTS
from symgrad.frontend.functions.scipy_functions import SPECIAL
from symgrad.frontend.tracing import FUNCTIONS
from symgrad.tensor.base import BaseTensor, as_value, call
from symgrad.tensor.native import reshaped, several_sizes, transposed

Dims = int | Sequence[int] | None


def np_call(function: Any, *args: Any, **keywords: Any) -> Any:
    """A function of NumPy on arguments among which are tensors."""
    like = next((type(t) for t in _flat(args) if isinstance(t, BaseTensor)), None)
    return call(FUNCTIONS.get(function) or REPLACEMENTS[function], args, keywords, like)


def _flat(args: Any) -> Any:
    for a in args:
        if isinstance(a, tuple | list):
            yield from _flat(a)
        else:
            yield a


def _dims(dim: Any) -> Any:
    return tuple(int(d) for d in dim) if isinstance(dim, tuple | list) else dim


def _cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


# --- reductions ------------------------------------------------------------------------------------------------------


def sum(x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The sum along dims, of all elements by default."""
    return np_call(np.sum, _cast(x, dtype), axis=_dims(dim), keepdims=keepdim)


def mean(x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return np_call(np.mean, _cast(x, dtype), axis=_dims(dim), keepdims=keepdim)


def prod(x: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return np_call(np.prod, _cast(x, dtype), axis=_dims(dim), keepdims=keepdim)


def var(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The variance, divided by one less than the number of elements unless ``unbiased`` is False."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    ddof = int(unbiased) if correction is None else correction
    return np_call(np.var, x, axis=_dims(dim), ddof=ddof, keepdims=keepdim)


def std(
    x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The root of the variance."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    ddof = int(unbiased) if correction is None else correction
    return np_call(np.std, x, axis=_dims(dim), ddof=ddof, keepdims=keepdim)


def amax(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    return np_call(np.max, x, axis=_dims(dim), keepdims=keepdim)


def amin(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    return np_call(np.min, x, axis=_dims(dim), keepdims=keepdim)


def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return np_call(np.argmax, x, axis=dim, keepdims=keepdim)


def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return np_call(np.argmin, x, axis=dim, keepdims=keepdim)


def all(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    return np_call(np.all, x, axis=_dims(dim), keepdims=keepdim)


def any(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    return np_call(np.any, x, axis=_dims(dim), keepdims=keepdim)


def cumsum(x: Any, dim: int) -> Any:
    return np_call(np.cumsum, x, axis=dim)


def cumprod(x: Any, dim: int) -> Any:
    return np_call(np.cumprod, x, axis=dim)


def logsumexp(x: Any, dim: Dims, keepdim: bool = False) -> Any:
    """The logarithm of the sum of exponentials, without overflow."""
    return call(SPECIAL["logsumexp"], (x,), {"axis": _dims(dim), "keepdims": keepdim}, type(x))


def norm(x: Any, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Any:
    """The norm of the elements as one vector, or of the vectors along dims; its gradient at zero is zero."""
    order = {"fro": 2, "inf": math.inf}.get(p, p) if isinstance(p, str) else p
    if dim is None:
        out = np_call(np.linalg.norm, x.reshape(-1), ord=order)
        return out.reshape((1,) * x.ndim) if keepdim else out
    if isinstance(dim, int):
        return np_call(np.linalg.norm, x, ord=order, axis=dim, keepdims=keepdim)
    if order != 2:
        raise ValueError("norm: over several dims only the 2-norm is there")
    return sum(x * x, dim, keepdim).sqrt()


# --- products --------------------------------------------------------------------------------------------------------


def _of_rank(ranks: tuple[int, int], what: str) -> Callable[[Any, Any], Any]:
    def product(x: Any, y: Any) -> Any:
        if (x.ndim, y.ndim) != ranks:
            raise RuntimeError(f"{what}: wants {ranks[0]}-D and {ranks[1]}-D tensors, got {x.ndim}-D and {y.ndim}-D")
        return x @ y

    product.__name__ = what
    return product


mm, bmm, mv = _of_rank((2, 2), "mm"), _of_rank((3, 3), "bmm"), _of_rank((2, 1), "mv")


def matmul(x: Any, y: Any) -> Any:
    return x @ y


def dot(x: Any, y: Any) -> Any:
    return sum(x * y, -1)


def outer(x: Any, y: Any) -> Any:
    return np_call(np.outer, x, y)


def einsum(equation: str, *operands: Any) -> Any:
    """Products and sums by letters, as NumPy's ``einsum``."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], tuple | list) else operands
    return np_call(np.einsum, equation, *given)


# --- shapes ----------------------------------------------------------------------------------------------------------


def reshape(x: Any, *shape: Any) -> Any:
    return reshaped(x, several_sizes(shape))


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dims from one to another as one."""
    shape = x._dims
    first, last = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return reshaped(x, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def squeeze(x: Any, dim: Dims = None) -> Any:
    """Without its dims of length one, or without those named where they have length one."""
    named = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dropped = {d % max(x.ndim, 1) for d in named}
    return reshaped(x, tuple(s for k, s in enumerate(x._dims) if s != 1 or k not in dropped))


def unsqueeze(x: Any, dim: int) -> Any:
    at = dim % (x.ndim + 1)
    return reshaped(x, (*x._dims[:at], 1, *x._dims[at:]))


def permute(x: Any, *dims: Any) -> Any:
    return transposed(x, tuple(d % x.ndim for d in several_sizes(dims)))


def swap(x: Any, dim0: int, dim1: int) -> Any:
    """Two dims in each other's place."""
    order = list(range(x.ndim))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return transposed(x, tuple(order))


def t(x: Any) -> Any:
    """The transpose of a matrix; a vector as it is."""
    if x.ndim > 2:
        raise RuntimeError(f"t() wants at most two dims, this tensor has {x.ndim}")
    return transposed(x, tuple(reversed(range(x.ndim))))


def expand(x: Any, *sizes: Any) -> Any:
    """Repeated without copying; -1 keeps a length."""
    given = several_sizes(sizes)
    lead = len(given) - x.ndim
    shape = tuple(x._dims[k - lead] if s == -1 else s for k, s in enumerate(given))
    return np_call(np.broadcast_to, x, shape)


def tile(x: Any, *repeats: Any) -> Any:
    return np_call(np.tile, x, several_sizes(repeats))


def cat(tensors: Any, dim: int = 0) -> Any:
    return np_call(np.concatenate, list(tensors), axis=dim)


def stack(tensors: Any, dim: int = 0) -> Any:
    return np_call(np.stack, list(tensors), axis=dim)


def split(x: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """Parts of one length (the last may be shorter), or of the lengths given."""
    length = x._dims[dim]
    sizes = split_size if isinstance(split_size, tuple | list) else [split_size] * -(-length // split_size)
    parts, at = [], 0
    for size in sizes:
        parts.append(x[(*(slice(None),) * (dim % x.ndim), slice(at, min(at + size, length)))])
        at += size
    return tuple(parts)


def chunk(x: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    return split(x, -(-x._dims[dim] // chunks), dim)


def unbind(x: Any, dim: int = 0) -> tuple[Any, ...]:
    return tuple(x[(*(slice(None),) * (dim % x.ndim), k)] for k in range(x._dims[dim]))


# --- choices ---------------------------------------------------------------------------------------------------------


def where(condition: Any, x: Any, y: Any) -> Any:
    """Elements of ``x`` where the condition holds, else of ``y``."""
    return np_call(np.where, condition, x, y)


def maximum(x: Any, y: Any) -> Any:
    return np_call(np.maximum, x, y)


def minimum(x: Any, y: Any) -> Any:
    return np_call(np.minimum, x, y)


def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return np_call(np.where, mask, value, x)


def gather(x: Any, dim: int, index: Any) -> Any:
    return np_call(np.take_along_axis, x, index, axis=dim)


def index_select(x: Any, dim: int, index: Any) -> Any:
    return np_call(np.take, x, index, axis=dim)


def sort(x: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """The sorted values and where they were."""
    order = argsort(x, dim, descending)
    return gather(x, dim, order), order


def argsort(x: Any, dim: int = -1, descending: bool = False) -> Any:
    return np_call(np.argsort, -x if descending else x, axis=dim)


def triu(x: Any, diagonal: int = 0) -> Any:
    return np_call(np.triu, x, k=diagonal)


def tril(x: Any, diagonal: int = 0) -> Any:
    return np_call(np.tril, x, k=diagonal)


def diag(x: Any, diagonal: int = 0) -> Any:
    return np_call(np.diag, x, k=diagonal)


def numel(x: Any) -> int:
    return math.prod(x._dims)


def allclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return bool(np.allclose(np.asarray(x), np.asarray(y), rtol=rtol, atol=atol, equal_nan=equal_nan))


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    """Scale the gradients so that their norm as one vector is at most ``max_norm``; return what it was."""
    given = [parameters] if isinstance(parameters, BaseTensor) else list(parameters)
    grads = [p.grad for p in given if p.grad is not None]
    if not grads:
        raise ValueError("clip_grad_norm_: no parameter has a gradient")
    total = norm(stack([norm(g.detach(), norm_type) for g in grads]), norm_type)
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for g in grads:
        g._update(g * scale)
    return total


def made(like: type[BaseTensor], array: Any, requires_grad: bool = False) -> Any:
    """A leaf of a dialect with a copy of ``array``."""
    new = like._make(as_value(array))
    new._require(requires_grad)
    return new


def from_dlpack(like: type[BaseTensor], other: Any) -> Any:
    """A copy of another library's array."""
    return made(like, np.from_dlpack(other))


__all__ = [
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "argsort", "bmm", "cat", "chunk",
    "clip_grad_norm_", "cumprod", "cumsum", "diag", "dot", "einsum", "expand", "flatten", "from_dlpack", "gather",
    "index_select", "logsumexp", "made", "masked_fill", "matmul", "maximum", "mean", "minimum", "mm", "mv", "norm",
    "numel", "outer", "permute", "prod", "reshape", "sort", "split", "squeeze", "stack", "std", "sum", "swap", "t",
    "tile", "tril", "triu", "unbind", "unsqueeze", "var", "where",
]  # fmt: skip
