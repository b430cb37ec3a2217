"""The two ways in which a kernel declines its arguments."""

import torch


def expect_shape(function: str, name: str, tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    """ValueError naming the argument, the expected and the found shape, unless they are equal."""
    if tensor.shape != shape:
        raise ValueError(f"{function}: {name} must have shape {list(shape)}, found {list(tensor.shape)}")


def expect_table(function: str, req_to_token: torch.Tensor, pool_len: int) -> None:
    """ValueError unless `req_to_token` is a contiguous [requests, pool_len] table."""
    if req_to_token.dim() != 2 or req_to_token.shape[1] != pool_len or not req_to_token.is_contiguous():
        raise ValueError(
            f"{function}: req_to_token must be contiguous with shape [requests, {pool_len}] (pool_len), "
            f"found {list(req_to_token.shape)} with strides {list(req_to_token.stride())}"
        )


def refuse(function: str, argument: str, found: object, supported: str) -> None:
    """NotImplementedError naming the argument, what was passed and what is supported."""
    raise NotImplementedError(f"{function}: {argument}={found} is not supported on CPU, only {supported}")
