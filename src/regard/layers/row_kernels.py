"""Triton kernels: the operations between the matrix products of a layer, with their gradients, in one pass each.

    add_norm             s = x + Dropout(y),  out = LayerNorm(s)          without y: the norm alone
    dropped_sum          x + Dropout(y)
    linear_activation    act(x W^T + b)

In backward a program reads the rows of a span once. It writes the gradients of these rows, and adds up the sums over
rows (the gradients of g, b and the bias) in registers, so no second pass reads the matrix again:

    dout = out's gradient,  n = (s - mean) / std,  w = dout g
    ds = (w - mean(w) - n mean(w n)) / std,  dx = ds,  dy = ds where kept / (1 - p)
    dg = sum over rows of dout n,  db = sum over rows of dout

The dropout mask is a hash(seed, row, column), computed again in backward and never stored. The sums are added in one
order, so the same inputs give the same bits.

N rows, D columns.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

from regard.attention.intervals import is_kept, row_hash

# Elements of a tile of whole rows, and rows of a program in backward.
TILE, SPAN = 2048, 48
RELU, GELU = 0, 1
ACTIVATIONS = (dict(ROWS=16, BLOCK=512), dict(ROWS=8, BLOCK=128))
"""Rows and columns of a tile of each activation; in backward a program has 16 of them, one below the other."""


@triton.jit
def _place(first, last, D, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Rows and columns of a tile, the offsets of its elements, and which of them exist."""
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    inside = (rows < last)[:, None] & (columns < D)[None, :]
    return rows, columns, rows[:, None].to(tl.int64) * D + columns[None, :], inside


@triton.jit
def _add_norm(
    X, Y, GAIN, BIAS, SEED, SUM, OUT, MEAN, RSTD, N, D, eps, dropout,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """Some rows of s and of its norm; s is rounded as it is stored, as in the sum of two tensors."""
    rows, columns, at, inside = _place(tl.program_id(0) * ROWS, N, D, ROWS, BLOCK)
    s = tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        y = tl.load(Y + at, mask=inside, other=0.0).to(tl.float32)
        if DROP:
            y = tl.where(is_kept(row_hash(tl.load(SEED), 0, rows), columns, dropout), y * (1.0 / (1.0 - dropout)), 0.0)
        rounded = (s + y).to(SUM.dtype.element_ty)
        tl.store(SUM + at, rounded, mask=inside)
        s = rounded.to(tl.float32)
    mean = tl.sum(s, 1) / D
    centred = tl.where(inside, s - mean[:, None], 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1) / D + eps)
    gain, bias = tl.load(GAIN + columns, mask=columns < D), tl.load(BIAS + columns, mask=columns < D)
    out = centred * rstd[:, None] * gain[None, :] + bias[None, :]
    tl.store(OUT + at, out.to(OUT.dtype.element_ty), mask=inside)
    tl.store(MEAN + rows, mean, mask=rows < N)
    tl.store(RSTD + rows, rstd, mask=rows < N)


@triton.jit
def _add_norm_backward(
    GRAD, S, GAIN, MEAN, RSTD, SEED, DX, DY, SUMS, N, D, span, dropout,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr, DROP: tl.constexpr,
):  # fmt: skip
    """The gradients of a span of rows, and their part of dg and db."""
    begin = tl.program_id(0) * span
    last = tl.minimum(begin + span, N)
    columns = tl.arange(0, BLOCK)
    gain = tl.load(GAIN + columns, mask=columns < D, other=0.0)
    dg, db = tl.zeros([ROWS, BLOCK], tl.float32), tl.zeros([ROWS, BLOCK], tl.float32)
    seed = tl.load(SEED) if DROP else 0
    for first in range(begin, last, ROWS):
        rows, columns, at, inside = _place(first, last, D, ROWS, BLOCK)
        grad = tl.load(GRAD + at, mask=inside, other=0.0).to(tl.float32)
        s = tl.load(S + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(MEAN + rows, mask=rows < last, other=0.0)
        rstd = tl.load(RSTD + rows, mask=rows < last, other=0.0)
        n = (s - mean[:, None]) * rstd[:, None]
        dg += grad * n
        db += grad
        w = grad * gain[None, :]
        ds = (w - (tl.sum(w, 1) / D)[:, None] - n * (tl.sum(w * n, 1) / D)[:, None]) * rstd[:, None]
        tl.store(DX + at, ds.to(DX.dtype.element_ty), mask=inside)
        if ADD:
            if DROP:
                ds = tl.where(is_kept(row_hash(seed, 0, rows), columns, dropout), ds * (1.0 / (1.0 - dropout)), 0.0)
            tl.store(DY + at, ds.to(DY.dtype.element_ty), mask=inside)
    sums = SUMS + tl.program_id(0).to(tl.int64) * 2 * D + columns
    tl.store(sums, tl.sum(dg, 0), mask=columns < D)
    tl.store(sums + D, tl.sum(db, 0), mask=columns < D)


@triton.jit
def _dropped(X, Y, SEED, OUT, N, D, dropout, ROWS: tl.constexpr, BLOCK: tl.constexpr, ADD: tl.constexpr):
    """x + Dropout(y), or with ADD false Dropout(y), which is also the gradient of y."""
    rows, columns, at, inside = _place(tl.program_id(0) * ROWS, N, D, ROWS, BLOCK)
    y = tl.load(Y + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.where(is_kept(row_hash(tl.load(SEED), 0, rows), columns, dropout), y * (1.0 / (1.0 - dropout)), 0.0)
    if ADD:
        y += tl.load(X + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=inside)


@triton.jit
def _normal(u):
    """Cumulative distribution and density of N(0, 1), which share their exponential.

    The first is equation 7.1.26 of Abramowitz and Stegun 1964, with an error below 1e-7 and less to compute than erf.
    """
    bell = tl.exp(-0.5 * u * u)
    t = 1.0 / (1.0 + 0.2316418919 * tl.abs(u))
    tail = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145))))
    tail = tail * bell
    return tl.where(u > 0, 1.0 - tail, tail), bell * 0.3989422804014327


@triton.jit
def _activated(Z, BIAS, OUT, N, D, KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of ROWS x BLOCK elements of act(z + b)."""
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (columns < D)[None, :]
    at = rows[:, None].to(tl.int64) * D + columns[None, :]
    bias = tl.load(BIAS + columns, mask=columns < D, other=0.0).to(tl.float32)
    u = tl.load(Z + at, mask=inside, other=0.0).to(tl.float32) + bias[None, :]
    h = tl.maximum(u, 0.0) if KIND == 0 else u * _normal(u)[0]
    tl.store(OUT + at, h.to(OUT.dtype.element_ty), mask=inside)


@triton.jit
def _activated_backward(
    GRAD, Z, BIAS, DZ, SUMS, N, D, span, KIND: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """dz = dh act'(z + b) for a span of rows and BLOCK columns, and its part of db. For relu, Z may be h itself."""
    begin = tl.program_id(0) * span
    last = tl.minimum(begin + span, N)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(BIAS + columns, mask=columns < D, other=0.0).to(tl.float32)
    db = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(begin, last, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < last)[:, None] & (columns < D)[None, :]
        at = rows[:, None].to(tl.int64) * D + columns[None, :]
        grad = tl.load(GRAD + at, mask=inside, other=0.0).to(tl.float32)
        z = tl.load(Z + at, mask=inside, other=0.0).to(tl.float32)
        if KIND == 0:
            dz = tl.where(z > 0, grad, 0.0)
        else:
            u = z + bias[None, :]
            below, density = _normal(u)
            dz = grad * (below + u * density)
        rounded = dz.to(DZ.dtype.element_ty)
        tl.store(DZ + at, rounded, mask=inside)
        db += rounded.to(tl.float32)
    tl.store(SUMS + tl.program_id(0).to(tl.int64) * D + columns, tl.sum(db, 0), mask=columns < D)


@triton.jit
def _sum(SUMS, OUT, N, D, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of N rows for BLOCK columns, in one order."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for first in range(0, N, ROWS):
        rows = first + tl.arange(0, ROWS)
        inside = (rows < N)[:, None] & (columns < D)[None, :]
        total += tl.load(SUMS + rows[:, None] * D + columns[None, :], mask=inside, other=0.0)
    tl.store(OUT + columns, tl.sum(total, 0).to(OUT.dtype.element_ty), mask=columns < D)


def _total(sums: Tensor, dtype: torch.dtype) -> Tensor:
    """(P, D) -> (D,)."""
    out = sums.new_empty(sums.size(1), dtype=dtype)
    _sum[(triton.cdiv(sums.size(1), 16),)](sums, out, *sums.shape, ROWS=512, BLOCK=16)
    return out


def _tile(columns: int) -> dict[str, int]:
    """Rows and columns of a tile that holds whole rows."""
    block = triton.next_power_of_2(columns)
    return {"ROWS": max(1, TILE // block), "BLOCK": block}


# ---- the operations


@torch.library.custom_op("regard::add_norm", mutates_args=())
def add_norm_op(
    x: Tensor, y: Tensor | None, gain: Tensor, bias: Tensor, seed: Tensor, dropout: float, eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """x, y (N, D) -> the norm of x + Dropout(y) in `dtype`, the sum, and mean and 1 / std of its rows (N,)."""
    (rows, columns), tile = x.shape, _tile(x.size(1))
    out = x.new_empty(x.shape, dtype=dtype)
    total = x if y is None else x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, y.dtype))
    mean, rstd = (x.new_empty(rows, dtype=torch.float32) for _ in range(2))
    _add_norm[(triton.cdiv(rows, tile["ROWS"]),)](
        x, x if y is None else y, gain, bias, seed, total, out, mean, rstd, rows, columns, eps, dropout,
        **tile, ADD=y is not None, DROP=dropout > 0,
    )  # fmt: skip
    return out, total.new_empty(0) if y is None else total, mean, rstd


@add_norm_op.register_fake
def _(x, y, gain, bias, seed, dropout, eps, dtype):
    total = x.new_empty(0) if y is None else x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, y.dtype))
    return x.new_empty(x.shape, dtype=dtype), total, *(x.new_empty(x.size(0), dtype=torch.float32) for _ in range(2))


@torch.library.custom_op("regard::add_norm_backward", mutates_args=())
def add_norm_backward(
    grad: Tensor, s: Tensor, gain: Tensor, mean: Tensor, rstd: Tensor, seed: Tensor, dropout: float,
    x_dtype: torch.dtype, y_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of x, of y, and of gain and bias together (2, D)."""
    grad, (rows, columns), tile = grad.contiguous(), s.shape, _tile(s.size(1))
    dx = s.new_empty(s.shape, dtype=x_dtype)
    dy = s.new_empty(0) if y_dtype is None else s.new_empty(s.shape, dtype=y_dtype)
    programs = triton.cdiv(rows, SPAN)
    sums = s.new_empty(programs, 2 * columns, dtype=torch.float32)
    _add_norm_backward[(programs,)](
        grad, s, gain, mean, rstd, seed, dx, dy, sums, rows, columns, SPAN, dropout,
        **tile, ADD=y_dtype is not None, DROP=dropout > 0,
    )  # fmt: skip
    return dx, dy, _total(sums, sums.dtype).view(2, -1)


@add_norm_backward.register_fake
def _(grad, s, gain, mean, rstd, seed, dropout, x_dtype, y_dtype):
    dy = s.new_empty(0) if y_dtype is None else s.new_empty(s.shape, dtype=y_dtype)
    return s.new_empty(s.shape, dtype=x_dtype), dy, s.new_empty(2, s.size(1), dtype=torch.float32)


def _remember_norm(ctx, inputs, output):
    x, y, gain, _, seed, ctx.dropout, _, _ = inputs
    _, total, mean, rstd = output
    ctx.x_dtype, ctx.y_dtype = x.dtype, None if y is None else y.dtype
    ctx.save_for_backward(x if y is None else total, gain, mean, rstd, seed)
    ctx.mark_non_differentiable(total, mean, rstd)


def _differentiate_norm(ctx, grad, *_):
    s, gain, mean, rstd, seed = ctx.saved_tensors
    dx, dy, sums = add_norm_backward(grad, s, gain, mean, rstd, seed, ctx.dropout, ctx.x_dtype, ctx.y_dtype)
    return dx, None if ctx.y_dtype is None else dy, sums[0], sums[1], None, None, None, None


add_norm_op.register_autograd(_differentiate_norm, setup_context=_remember_norm)


@torch.library.custom_op("regard::dropped", mutates_args=())
def dropped(x: Tensor | None, y: Tensor, seed: Tensor, dropout: float, dtype: torch.dtype) -> Tensor:
    """x + Dropout(y), or Dropout(y) without x, in `dtype`."""
    out, tile = y.new_empty(y.shape, dtype=dtype), _tile(y.size(1))
    _dropped[(triton.cdiv(y.size(0), tile["ROWS"]),)](
        y if x is None else x, y, seed, out, *y.shape, dropout, **tile, ADD=x is not None
    )
    return out


@dropped.register_fake
def _(x, y, seed, dropout, dtype):
    return y.new_empty(y.shape, dtype=dtype)


def _remember_dropped(ctx, inputs, output):
    x, y, seed, ctx.dropout, _ = inputs
    ctx.x_dtype, ctx.y_dtype = x.dtype, y.dtype
    ctx.save_for_backward(seed)


def _differentiate_dropped(ctx, grad):
    dy = dropped(None, grad.contiguous(), ctx.saved_tensors[0], ctx.dropout, ctx.y_dtype)
    return grad.to(ctx.x_dtype), dy, None, None, None


dropped.register_autograd(_differentiate_dropped, setup_context=_remember_dropped)


@torch.library.custom_op("regard::activated", mutates_args=())
def activated(z: Tensor, bias: Tensor, kind: int) -> Tensor:
    """act(z + b): z (N, D), bias (D,) -> (N, D)."""
    out = torch.empty_like(z)
    tile = ACTIVATIONS[kind]
    grid = (triton.cdiv(z.size(0), tile["ROWS"]), triton.cdiv(z.size(1), tile["BLOCK"]))
    _activated[grid](z, bias, out, *z.shape, KIND=kind, **tile)
    return out


@activated.register_fake
def _(z, bias, kind):
    return torch.empty_like(z)


@torch.library.custom_op("regard::linear_relu", mutates_args=())
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu(x W^T + b) as one kernel: x (N, D), weight (F, D) -> (N, F)."""
    return torch._addmm_activation(bias, x, weight.T)


@linear_relu.register_fake
def _(x, weight, bias):
    return x.new_empty(x.size(0), weight.size(0))


@torch.library.custom_op("regard::activated_backward", mutates_args=())
def activated_backward(grad: Tensor, z: Tensor, bias: Tensor, kind: int) -> tuple[Tensor, Tensor]:
    """The gradients of z and of the bias; for relu z may be its output."""
    grad, (rows, columns), tile = grad.contiguous(), z.shape, ACTIVATIONS[kind]
    span = 16 * tile["ROWS"]
    programs = triton.cdiv(rows, span)
    dz, sums = torch.empty_like(z), z.new_empty(programs, columns, dtype=torch.float32)
    _activated_backward[(programs, triton.cdiv(columns, tile["BLOCK"]))](
        grad, z, bias, dz, sums, rows, columns, span, KIND=kind, **tile
    )
    return dz, _total(sums, bias.dtype)


@activated_backward.register_fake
def _(grad, z, bias, kind):
    return torch.empty_like(z), torch.empty_like(bias)


def _remember_activated(ctx, inputs, output):
    z, bias, ctx.kind = inputs
    ctx.save_for_backward(z, bias)


def _differentiate_activated(ctx, grad):
    return *activated_backward(grad, *ctx.saved_tensors, ctx.kind), None


activated.register_autograd(_differentiate_activated, setup_context=_remember_activated)


def _remember_linear_relu(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output)


def _differentiate_linear_relu(ctx, grad):
    x, weight, bias, h = ctx.saved_tensors
    dz, db = activated_backward(grad, h, bias, RELU)
    return dz @ weight, dz.T @ x, db


linear_relu.register_autograd(_differentiate_linear_relu, setup_context=_remember_linear_relu)


# ---- for the layers


def add_norm(x: Tensor, y: Tensor | None, norm: nn.Module, dropout: float) -> Tensor:
    """LayerNorm(x + Dropout(y)), or LayerNorm(x): x, y (*, D) -> (*, D), in y's dtype, or that of matrix products."""
    assert isinstance(norm, nn.LayerNorm)
    dtype = _product_dtype(x) if y is None else y.dtype
    rows, others = x.flatten(0, -2), None if y is None else y.flatten(0, -2)
    dropout = 0.0 if y is None else dropout
    out = add_norm_op(rows, others, norm.weight, norm.bias, _seed(x, dropout), dropout, norm.eps, dtype)[0]
    return out.view_as(x)


def dropped_sum(x: Tensor, y: Tensor, dropout: float) -> Tensor:
    """x + Dropout(y), (*, D)."""
    dtype = torch.promote_types(x.dtype, y.dtype)
    return dropped(x.flatten(0, -2), y.flatten(0, -2), _seed(x, dropout), dropout, dtype).view_as(x)


def linear_activation(x: Tensor, linear: nn.Linear, is_relu: bool) -> Tensor:
    """relu or gelu of a linear map with a bias: x (*, D) -> (*, F)."""
    dtype = _product_dtype(x)
    rows, weight, bias = (tensor.to(dtype) for tensor in (x.flatten(0, -2), linear.weight, linear.bias))
    h = linear_relu(rows, weight, bias) if is_relu else activated(F.linear(rows, weight), bias, GELU)
    return h.unflatten(0, x.shape[:-1])


def _seed(x: Tensor, dropout: float) -> Tensor:
    """The seed of a dropout mask; any tensor where nothing is dropped."""
    return torch.randint(2**62, (1,), device=x.device) if dropout else x.new_empty(1, dtype=torch.int64)


def _product_dtype(x: Tensor) -> torch.dtype:
    """The type in which matrix products of x are computed."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
