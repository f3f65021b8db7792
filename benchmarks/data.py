"""Images per second of the two-crop pipelines, side by side, on one core.

    python -m benchmarks.data --images FOLDER [--batch-size N] [--repeats R] [--device cpu|cuda]

FOLDER contains `CLASS/*.jpg` of one size, as an export of CIFAR does. Every pipeline makes batches of two normalised
crops with the paper's CIFAR augmentations, without and with the Gaussian blur of its other data sets, in the calling
process, with one thread. Missing packages are skipped. Workers of the loader multiply all figures alike, except those
of DALI, which uses threads, and of the last pipeline, which makes crops on the device without workers.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from PIL import Image
from torch.utils.data import Dataset, default_collate
from torchvision.transforms import InterpolationMode, v2

from benchmarks.runner import RESULTS, Timing, as_plain, compare, markdown_table, output_folder, save
from radial_vicreg.compose import compose, run_config
from radial_vicreg.config import RunConfig
from radial_vicreg.data.augmentation import SOLARIZE_THRESHOLD, MultiCrop, mean_and_std
from radial_vicreg.data.build import open_data
from radial_vicreg.data.loader import build_training_set

BLUR_KERNEL = 9  # pixels; v2 requires a size, and this one covers two standard deviations of 2 pixels
BLURS = {"Without blur (CIFAR)": 0.0, "Blur with probability 0.5": 0.5}
Batches = Callable[[list[int]], Any]


def configuration(options: argparse.Namespace, blur: float, *overrides: str) -> RunConfig:
    place = [f"data.train_path={options.images}", "data.num_workers=1"]
    settings = [f"accelerator={'cpu' if options.device == 'cpu' else 'gpu'}", f"augment.gaussian_blur={blur}"]
    return run_config(compose("radialvicreg", ["radialvicreg/dataset=folder", *place, *settings, *overrides]))


def one_by_one(dataset: Dataset[Any]) -> Batches:
    return lambda indexes: default_collate([dataset[index] for index in indexes])


def tensor_pipeline(config: RunConfig) -> Callable[[torch.Tensor], torch.Tensor]:
    """Build the same operations from torchvision's v2, on uint8 tensors."""
    aug, jitter = config.augmentations[0], config.augmentations[0].color_jitter
    mean, std = mean_and_std(config.data.dataset, aug)
    colors = v2.ColorJitter(*jitter.strengths)
    blur = v2.GaussianBlur(BLUR_KERNEL, (0.1, 2.0))
    return v2.Compose(
        [
            v2.RandomResizedCrop(aug.crop_size, aug.rrc.scale, interpolation=InterpolationMode.BICUBIC, antialias=True),
            v2.RandomApply([colors], p=jitter.prob),
            v2.RandomGrayscale(p=aug.grayscale.prob),
            *([v2.RandomApply([blur], p=aug.gaussian_blur.prob)] if aug.gaussian_blur.prob else []),
            v2.RandomSolarize(SOLARIZE_THRESHOLD, p=aug.solarization.prob),
            v2.RandomHorizontalFlip(p=aug.horizontal_flip.prob),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean, std),
        ]
    )


def tensors_from_files(config: RunConfig) -> Batches:
    crops = MultiCrop([tensor_pipeline(config)], [2])

    def decode(image: Image.Image) -> list[torch.Tensor]:
        return crops(v2.functional.pil_to_tensor(image))  # type: ignore[arg-type]

    return one_by_one(open_data(config).training_set(decode))


def tensors_from_memory(config: RunConfig) -> Batches:
    plain = open_data(config).training_set(v2.functional.pil_to_tensor)
    decoded, crops = [plain[index] for index in range(len(plain))], MultiCrop([tensor_pipeline(config)], [2])

    def batch(indexes: list[int]) -> Any:
        return default_collate([(index, crops(decoded[index][1]), decoded[index][2]) for index in indexes])

    return batch


def ours(config: RunConfig) -> Batches:
    return one_by_one(build_training_set(config, open_data(config)))


def on_device(config: RunConfig) -> Batches:
    return build_training_set(config, open_data(config)).collate  # type: ignore[union-attr]


def solo_form(config: RunConfig) -> DictConfig:
    return OmegaConf.create(config.plain())


def solo_learn(config: RunConfig) -> Batches:
    from solo.data.pretrain_dataloader import FullTransformPipeline, NCropAugmentation, build_transform_pipeline

    pipeline = build_transform_pipeline(config.data.dataset, solo_form(config).augmentations[0])
    return one_by_one(open_data(config).training_set(FullTransformPipeline([NCropAugmentation(pipeline, 2)])))


def dali(config: RunConfig, batch_size: int) -> Batches:
    """Build solo-learn's DALI pipeline on the CPU; it samples its images itself."""
    from solo.data.dali_dataloader import PretrainPipelineBuilder, build_transform_pipeline_dali
    from solo.data.pretrain_dataloader import FullTransformPipeline, NCropAugmentation

    crops = NCropAugmentation(build_transform_pipeline_dali("custom", solo_form(config).augmentations[0], "cpu"), 2)
    builder = PretrainPipelineBuilder(
        config.data.train_path, batch_size, device="cpu", transforms=FullTransformPipeline([crops]), device_id=0
    )
    # Without this, the pipeline prefetches while the others are timed.
    waits = {"exec_async": False, "exec_pipelined": False, "prefetch_queue_depth": 1}
    pipeline = builder.pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=1, **waits)
    pipeline.build()
    return lambda indexes: pipeline.run()


def contestants(options: argparse.Namespace, blur: float) -> dict[str, Batches]:
    """Return the pipelines by name; the first is the reference for the others."""
    config = configuration(options, blur)
    found: dict[str, Batches] = {"Pillow, as it is (default)": ours(config)}
    solo = importable("solo")
    if solo:
        found["solo-learn, Pillow"] = solo_learn(config)
    found["Pillow, data.cache=ram"] = ours(configuration(options, blur, "data.cache=ram"))
    found["torchvision v2, uint8 tensors"] = tensors_from_files(config)
    found["torchvision v2, uint8 tensors kept in memory"] = tensors_from_memory(config)
    if solo and importable("nvidia.dali"):
        found["DALI on the CPU"] = dali(config, options.batch_size)
    found[f"data.format=device ({options.device})"] = on_device(configuration(options, blur, "data.format=device"))
    return found


def importable(module: str) -> bool:
    """Return whether a module and its package are installed."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def endless(count: int, batch_size: int) -> Iterator[list[int]]:
    """Yield batches of indices endlessly, shuffled once."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).tolist()
    while True:
        yield from (order[first : first + batch_size] for first in range(0, count - batch_size + 1, batch_size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--out", type=output_folder, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    count = sum(1 for _ in options.images.glob("*/*"))
    tables, timings = {}, {}
    for heading, blur in BLURS.items():
        found = measure(options, count, blur)
        timings[heading] = as_plain(found)
        tables[heading] = table(found, options.batch_size)
        print(f"{heading}\n{tables[heading]}")
    title = f"Two crops of an image, {count:,} images, batches of {options.batch_size}"
    content = {"images": count, "batch_size": options.batch_size, "timings": timings}
    save("data", title, tables, content, options.device, options.out)


def measure(options: argparse.Namespace, count: int, blur: float) -> dict[str, Timing]:
    batches = endless(count, options.batch_size)
    calls = {name: partial(_next, make, batches) for name, make in contestants(options, blur).items()}
    return compare(calls, options.device, options.repeats, warmup=1)


def table(timings: dict[str, Timing], batch_size: int) -> str:
    reference = next(iter(timings.values())).median
    rows = [
        (name, f"{batch_size / each.median:,.0f}", f"{reference / each.median:.2f}", f"{each.spread / each.median:.0%}")
        for name, each in timings.items()
    ]
    return markdown_table(("pipeline", "images/s, one core", "times the default", "spread"), rows)


def _next(make: Batches, batches: Iterator[list[int]]) -> Any:
    return make(next(batches))


if __name__ == "__main__":
    main()
