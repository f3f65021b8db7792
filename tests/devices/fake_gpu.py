"""Tensors on a GPU that is not there: shapes, types and devices without values, and who would wait for them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from radial_vicreg.losses import _chi

GPU = torch.device("cuda", 0)

#: What gives Python a value, or has a size that depends on values.
_VALUES = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "equal"}
_COPIES = {"_to_copy", "copy_"}


class Waiting(TorchDispatchMode):
    """Raise where the host would wait for a GPU, unless that place is allowed to.

    Args:
        allowed: why it may, by ``module.function``.

    Attributes:
        waited: the allowed places that did.
        preparing: everything may wait while this is true.
    """

    def __init__(self, allowed: dict[str, str]) -> None:
        super().__init__()
        self.allowed = allowed
        self.waited: set[str] = set()
        self.preparing = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, func.overloadpacket.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_gpu = any(tensor.device.type == "cuda" for tensor in tensors)
        if name in _VALUES:
            if on_gpu:
                self._wait(name)
            if name == "_local_scalar_dense":  # a fake tensor has no value, on the CPU neither: all are 1
                return 1.0 if tensors[0].is_floating_point() else 1
        if name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1]):
            if on_gpu:
                self._wait("indexing by a mask")
            return args[0]  # as if the mask, of the first dimensions, took everything
        result = func(*args, **kwargs)
        if name in _COPIES and not kwargs.get("non_blocking", args[2] if len(args) > 2 and name == "copy_" else False):
            source = args[1] if name == "copy_" else args[0]
            if source.device.type != result.device.type:
                self._wait(f"{name} from {source.device} to {result.device}")
        return result

    def _wait(self, what: str) -> None:
        if self.preparing:
            return
        ours = [frame for frame in traceback.extract_stack() if "/radial_vicreg/" in frame.filename]
        places = [f"{Path(frame.filename).stem}.{frame.name}" for frame in reversed(ours)]
        for place in places:
            if place in self.allowed:
                self.waited.add(place)
                return
        raise AssertionError(f"{what} waits for the GPU in {', '.join(places[:3])}")


@contextmanager
def fake_gpu(allowed: dict[str, str] | None = None) -> Iterator[Waiting]:
    """Make every tensor of the block a fake one; those on :data:`GPU` need no GPU.

    Args:
        allowed: see :class:`Waiting`.
    """
    _chi._cached_quantiles.cache_clear()  # a fake tensor belongs to its block
    try:
        with (
            patch.object(nn.Module, "_apply", _apply),
            FakeTensorMode(allow_non_fake_inputs=True),
            Waiting(allowed or {}) as waiting,
        ):
            yield waiting
    finally:
        _chi._cached_quantiles.cache_clear()


def _apply(module: nn.Module, function: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """Convert a module; PyTorch's own would swap tensors in place, which fake ones refuse."""
    for part in module.modules():
        for name, weight in part._parameters.items():
            if weight is not None:
                part._parameters[name] = nn.Parameter(function(weight.detach()), weight.requires_grad)
        for name, buffer in part._buffers.items():
            if buffer is not None:
                part._buffers[name] = function(buffer)
    return module


def assert_on_gpu(*values: Any) -> None:
    """Assert that every tensor among the values is on the GPU."""
    tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    assert tensors
    assert {tensor.device for tensor in tensors} == {GPU}
