"""What do micro-batches save, and what do they cost? Peak memory and time of a step, and the error of the gradient.

    python -m benchmarks.micro_batches [--batches 64 256] [--sizes 16 64] [--networks resnet18 vit_tiny]

A step is forward and backward pass of two views through backbone, projector and loss. For each batch N the whole batch
and micro-batches of K images are timed in turn in one process. Memory is the peak of one step beyond what was held
before, by PyTorch's profiler on a CPU and by its allocator on a GPU. On a CPU, a time is that of the processor and not
of the clock, so that other work on the machine counts little.

The second table has one row for each loss, with a ViT of two blocks: the largest difference of a gradient from that of
the whole batch in float64, divided by the largest gradient; memory and time next to those of the whole batch.

``--compute vit_large`` prints what a step of a batch needs that no machine here could hold: it counts what autograd
keeps of one image, and what weights, gradients and optimizer take.
"""

from __future__ import annotations

import argparse
import copy
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import timm
import torch
from torch import Tensor, nn

from benchmarks.runner import (
    RESULTS,
    Timing,
    as_plain,
    compare,
    markdown_table,
    milliseconds,
    output_folder,
    peak_extra_bytes,
    quartile_range,
    save,
)
from radial_vicreg.losses import RadialVICRegLoss
from radial_vicreg.names.networks import VISION_TRANSFORMERS
from radial_vicreg.nets.micro_batches import use_micro_batches
from radial_vicreg.nets.models import build_projector

PIXELS, HIDDEN, DIM = 64, 512, 512
MEGABYTE = 2**20
LOSS_BATCH, LOSS_SIZE = 64, 8  # N and K of the table of losses
NETWORKS = ("resnet18", *VISION_TRANSFORMERS)

Loss = Callable[..., Any]


def build(name: str, **arguments: Any) -> tuple[nn.Module, int]:
    """Build a backbone without a head; a transformer has 64 patches of 8 pixels."""
    if name in VISION_TRANSFORMERS:
        sizes = {"img_size": PIXELS, "patch_size": 8, **arguments}
        model: Any = timm.create_model(VISION_TRANSFORMERS[name], num_classes=0, **sizes)
    else:
        model = timm.create_model(name, num_classes=0)
    return model, int(model.num_features)


class Step:
    """Forward and backward pass of two views.

    Args:
        backbone: it is copied.
        width: of its features.
        batch: images of a view.
        size: images of a micro-batch; None: the whole view.
        loss: of the embeddings of both views.
    """

    def __init__(
        self,
        backbone: nn.Module,
        width: int,
        batch: int,
        size: int | None,
        loss: Loss | None = None,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        torch.manual_seed(0)
        self.backbone = copy.deepcopy(backbone).to(device, dtype)
        self.projector = build_projector(width, HIDDEN, DIM).to(device, dtype)
        if size is not None:
            use_micro_batches(self.backbone, size)
        self.loss = RadialVICRegLoss() if loss is None else loss
        images = torch.randn(batch, 3, PIXELS, PIXELS, device=device, dtype=dtype)
        self.views = [images, images + 0.2 * torch.randn_like(images)]

    def __call__(self) -> None:
        for parameter in self.parameters():
            parameter.grad = None
        torch.manual_seed(1)  # losses that draw samples draw the same ones
        found = self.loss(*(self.projector(self.backbone(view)) for view in self.views))
        value: Tensor = found["loss"] if isinstance(found, dict) else found
        value.backward()

    def parameters(self) -> list[Tensor]:
        return [*self.backbone.parameters(), *self.projector.parameters()]


def memory_and_time(network: str, batch: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the whole batch and each size below it."""
    backbone, width = build(network)
    sizes: list[int | None] = [None, *(size for size in options.sizes if size < batch)]
    steps = {str(size): Step(backbone, width, batch, size, device=options.device) for size in sizes}
    memory, times = measure(steps, options)
    return [
        {
            "network": network,
            "batch": batch,
            "size": size,
            "peak_mb": memory[str(size)],
            "time": as_plain(times)[str(size)],
        }
        for size in sizes
    ]


def measure(steps: dict[str, Step], options: argparse.Namespace) -> tuple[dict[str, float], dict[str, Timing]]:
    """Measure the peak memory in MB and the time of steps."""
    memory = {}
    for name, step in steps.items():
        gc.collect()  # earlier steps hold themselves, and releasing them would count as this one's
        memory[name] = peak_extra_bytes(step, options.device) / MEGABYTE
    if options.device == "cuda":
        return memory, compare({**steps}, options.device, repeats=options.repeats, warmup=1)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(options.repeats):
        for name, step in steps.items():
            began = time.process_time()
            step()
            seconds[name].append(time.process_time() - began)
    return memory, {
        name: Timing(statistics.median(found), quartile_range(found), len(found), 1) for name, found in seconds.items()
    }


def memory_table(rows: list[dict[str, Any]]) -> str:
    """Format :func:`memory_and_time`, with ratios to the whole batch."""
    cells, whole = [], rows[0]
    for row in rows:
        whole = row if row["size"] is None else whole
        timing, ratio = Timing(**row["time"]), row["time"]["median"] / whole["time"]["median"]
        memory = row["peak_mb"]
        cells.append([row["network"], row["batch"], row["size"] or "all", f"{memory:,.0f}"])
        cells[-1] += [f"{whole['peak_mb'] / memory:.1f}", milliseconds(timing), f"{ratio:.2f}"]
    return markdown_table(["backbone", "N", "K", "peak, MB", "times less", "ms a step", "times as long"], cells)


def kept_of_an_image(network: str, pixels: int, blocks: bool = False) -> tuple[float, int]:
    """Count the bytes that autograd keeps of one image in bfloat16 autocast, and the backbone's parameters.

    It is the difference of two images and one, so that weights and their casts do not count. Attention is PyTorch's
    fused one, on a CPU as on a GPU.

    Args:
        network: architecture with patches of its usual size.
        pixels: width of an image.
        blocks: with timm's gradient checkpointing of each block.
    """
    backbone: Any = timm.create_model(VISION_TRANSFORMERS.get(network, network), num_classes=0)
    if blocks:
        backbone.set_grad_checkpointing()

    def kept(images: int) -> int:
        found: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooks, torch.autocast("cpu", torch.bfloat16):
            backbone(torch.randn(images, 3, pixels, pixels)).sum()
        return sum(found.values())

    return float(kept(2) - kept(1)), sum(parameter.numel() for parameter in backbone.parameters())


def computed_table(network: str, pixels: int, batch: int, sizes: Sequence[int]) -> str:
    """List what a step of two views needs: whole, with gradient checkpointing, and in micro-batches."""
    gigabyte = 2**30
    image, parameters = kept_of_an_image(network, pixels)
    of_blocks, _ = kept_of_an_image(network, pixels, blocks=True)
    # float32 weights, gradients and two moments of AdamW, and the bfloat16 weights of autocast
    fixed = parameters * (4 * 4 + 2)
    rows = [("whole batch", 2 * batch * image), ("timm's gradient checkpointing", 2 * batch * of_blocks)]
    rows += [(f"micro_batch_size={size}", size * image) for size in sizes]
    cells = [[name, *(f"{part / gigabyte:,.1f}" for part in (kept, fixed, kept + fixed))] for name, kept in rows]
    about = f"{network}, {parameters / 1e6:.0f} million parameters, {pixels} pixels, N {batch:,}, two views, bfloat16"
    heading = f"{about}: {image / MEGABYTE:.0f} MB an image, {of_blocks / MEGABYTE:.0f} with gradient checkpointing"
    return f"{heading}\n\n" + markdown_table(["", "activations, GB", "weights and AdamW, GB", "together"], cells)


def losses() -> dict[str, Callable[[], Loss]]:
    """List the losses of the harness: each objective, and lightly's where it is installed."""
    found: dict[str, Callable[[], Loss]] = {
        "VICReg": lambda: RadialVICRegLoss(radial_objective="none"),
        "kl (defaults)": RadialVICRegLoss,
        "kl, beta2 10": lambda: RadialVICRegLoss(radial_ent_loss_weight=10.0),
        "kl, beta2 10, centred": lambda: RadialVICRegLoss(radial_ent_loss_weight=10.0, radial_center=True),
        "wasserstein, samples": lambda: RadialVICRegLoss(radial_objective="wasserstein"),
        "wasserstein, quantiles": lambda: RadialVICRegLoss(
            radial_objective="wasserstein", radial_w1_target="quantiles"
        ),
        "reverse_kl": lambda: RadialVICRegLoss(radial_objective="reverse_kl"),
        "VICReg + e2mc": lambda: RadialVICRegLoss(radial_objective="none", e2mc_loss_weight=1.0),
        "kl + mean": lambda: RadialVICRegLoss(mean_loss_weight=25.0),
    }
    try:
        import lightly.loss

        from radial_vicreg import lightly_losses
    except ImportError:
        return found
    return {
        **found,
        "LeJEPA (lightly)": lightly_losses.LeJEPALoss,
        "VISReg (lightly)": lightly_losses.VISRegLoss,
        "Barlow Twins (lightly)": lightly_losses.BarlowTwinsLoss,
        "NT-Xent (lightly)": lightly.loss.NTXentLoss,
    }


def loss_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Compare gradients, memory and time of every loss with the whole batch."""
    backbone, width = build("vit_tiny", depth=2)
    rows = []
    for name, make in losses().items():
        exact = [Step(backbone, width, LOSS_BATCH, size, make(), dtype=torch.float64) for size in (None, LOSS_SIZE)]
        for step in exact:
            step()
        pairs = list(zip(*(step.parameters() for step in exact), strict=True))
        largest = max(float(one.grad.abs().max()) for one, _ in pairs if one.grad is not None)
        error = max(float((one.grad - two.grad).abs().max()) for one, two in pairs if None not in (one.grad, two.grad))
        del exact, pairs
        steps = {
            str(size): Step(backbone, width, LOSS_BATCH, size, make(), options.device) for size in (None, LOSS_SIZE)
        }
        memory, times = measure(steps, options)
        rows.append({"loss": name, "error": error / largest, "peak_mb": memory, "time": as_plain(times)})
    return rows


def loss_table(rows: list[dict[str, Any]]) -> str:
    """Format :func:`loss_rows`."""
    whole, size = "None", str(LOSS_SIZE)
    cells = [
        [
            row["loss"],
            f"{row['error']:.0e}",
            f"{row['peak_mb'][whole]:.0f}",
            f"{row['peak_mb'][size]:.0f}",
            f"{row['time'][size]['median'] / row['time'][whole]['median']:.2f}",
        ]
        for row in rows
    ]
    return markdown_table(["loss", "gradient error", "peak, MB: all", f"K {LOSS_SIZE}", "times as long"], cells)


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="*", choices=NETWORKS, default=["resnet18", "vit_tiny"])
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--sizes", nargs="+", type=int, default=[16, 64])
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each comparison")
    parser.add_argument("--compute", choices=NETWORKS, help="print what a step needs, and measure nothing")
    parser.add_argument("--pixels", type=int, default=224, help="of --compute")
    parser.add_argument("--no-losses", action="store_true", help="without the table of losses")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.compute is not None:
        print(computed_table(options.compute, options.pixels, options.batches[-1], options.sizes))
        return
    rows: list[dict[str, Any]] = []
    for network in options.networks:
        for batch in options.batches:
            rows += memory_and_time(network, batch, options)
            print(memory_table(rows), end="\n\n", flush=True)
    tables = {f"Memory and time, two views of {PIXELS} pixels, d {DIM}": memory_table(rows)} if rows else {}
    of_losses = [] if options.no_losses else loss_rows(options)
    if of_losses:
        heading = f"Losses: a ViT-Tiny of two blocks, N {LOSS_BATCH}; gradients in float64"
        tables[heading] = loss_table(of_losses)
        print(tables[heading])
    title = "Micro-batches: K images at a time, computed once more in the backward pass"
    path = save("micro-batches", title, tables, {"rows": rows, "losses": of_losses}, options.device, options.out)
    print(f"{path.with_suffix('.md')} and .json")


if __name__ == "__main__":
    main()
