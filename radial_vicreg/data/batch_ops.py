"""Pillow's image operations for a whole batch on any device, with separate parameters for each image.

Images are float32 of shape ``(N, 3, H, W)`` with integer levels from 0 to 255, as in Pillow after every step; results
are rounded as in Pillow. No function waits for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

BRIGHTNESS, CONTRAST, SATURATION = TONES = range(3)

_LEVELS = 255.0
_LUMA = (19595.0, 38470.0, 7471.0)  # / 65536: Pillow's weights of red, green and blue
_CUBIC = -0.5  # Pillow's parameter of the bicubic kernel
_BOX_PASSES = 3  # Pillow blurs by three box filters
_HUE_SCALE = 42.5  # Pillow keeps a hue as a byte: six sectors over 255


def resized_crop(images: Tensor, boxes: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut a box out of every image and resize it by bicubic interpolation with anti-aliasing.

    This takes two products with matrices of kernel weights, one for the columns and one for the rows. They cost the
    same whether a box is enlarged or reduced.

    Args:
        images: uint8 or float, ``(N, 3, H, W)``.
        boxes: top, left, height and width of each box in pixels, whole numbers, float32 ``(N, 4)``.
        size: height and width of the results.

    Returns:
        float32, ``(N, 3, *size)``.
    """
    count, channels, rows, columns = images.shape
    top, left, height, width = boxes.unbind(1)
    across = _cubic_weights(left, width, columns, size[1])
    down = _cubic_weights(top, height, rows, size[0])
    # One matrix per image holds all rows, so the weights need no copy per channel.
    wide = torch.bmm(images.float().reshape(count, channels * rows, columns), across.transpose(1, 2))
    wide = _round(wide).view(count, channels, rows, size[1]).transpose(1, 2).reshape(count, rows, -1)
    return _round(torch.bmm(down, wide)).view(count, size[0], channels, size[1]).transpose(1, 2).contiguous()


def grey(images: Tensor) -> Tensor:
    """Compute the luma of every pixel, ``(N, 1, H, W)``."""
    red, green, blue = images.split(1, dim=1)
    total: Tensor = (red * _LUMA[0]).add_(green, alpha=_LUMA[1]).add_(blue, alpha=_LUMA[2])
    return total.add_(32768).div_(65536).floor_()


def adjust_tone(images: Tensor, which: Tensor, factor: Tensor) -> Tensor:
    """Change brightness, contrast or saturation: blend with black, the mean luma, or the luma of each pixel.

    Args:
        images: ``(N, 3, H, W)``.
        which: ``BRIGHTNESS``, ``CONTRAST`` or ``SATURATION`` for each image, int64 ``(N,)``.
        factor: 0 gives only the blended colour, 1 the image itself, ``(N,)``.

    Returns:
        The shape of ``images``.
    """
    luma, which = grey(images), _wide(which)
    mean = (luma.mean(dim=(2, 3), keepdim=True) + 0.5).floor_()
    extreme = torch.where(which == SATURATION, luma, torch.where(which == CONTRAST, mean, 0.0))
    return (images - extreme).mul_(_wide(factor)).add_(extreme).clamp_(0, _LEVELS).floor_()


def shift_hue(images: Tensor, shift: Tensor) -> Tensor:
    """Shift the hue, by way of Pillow's HSV bytes.

    Args:
        images: ``(N, 3, H, W)``.
        shift: part of the colour wheel, -0.5 to 0.5, ``(N,)``.

    Returns:
        The shape of ``images``.
    """
    red, green, blue = images.split(1, dim=1)
    value, least = images.amax(dim=1, keepdim=True), images.amin(dim=1, keepdim=True)
    spread = value - least
    divisor = spread.clamp(min=1)
    sector = torch.where(
        red == value,
        (green - blue).div_(divisor),
        torch.where(green == value, (blue - red).div_(divisor).add_(2), (red - green).div_(divisor).add_(4)),
    )
    hue = torch.where(sector < 0, sector + 6, sector).mul_(_HUE_SCALE).floor_()
    hue = hue.add_(_wide((shift * _LEVELS).trunc())).remainder_(256)
    saturation = spread.mul_(_LEVELS).div_(value.clamp(min=1)).floor_().div_(_LEVELS)
    # Red, green and blue are the same tent function of the hue, two sectors apart.
    offsets = (5 - 2 * torch.arange(3, device=images.device)).view(1, 3, 1, 1)
    position = hue.div_(_HUE_SCALE).add(offsets).remainder_(6)
    tent = torch.minimum(position, 4 - position).clamp_(0, 1)
    return _round(tent.mul_(saturation).mul_(value).neg_().add_(value))


def gaussian_blur(images: Tensor, sigma: Tensor) -> Tensor:
    """Blur as Pillow does: three passes of a box with soft edges along the rows, then along the columns.

    Args:
        images: ``(N, 3, H, W)``.
        sigma: standard deviation in pixels, 0 to 2, ``(N,)``.

    Returns:
        The shape of ``images``.
    """
    variance = sigma**2 / _BOX_PASSES
    whole = ((torch.sqrt(12 * variance + 1) - 1) / 2).floor()  # pixels that count fully, on each side
    soft = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance) / (6 * (variance - (whole + 1) ** 2))
    full = 1 / (2 * (whole + soft) + 1)
    distance = torch.arange(3, device=images.device)  # a radius below 2 reaches no further pixel
    weights = full[:, None] * (soft[:, None] + whole[:, None] + 1 - distance).clamp(0, 1)
    for _ in range(2):
        for _ in range(_BOX_PASSES):
            padded = torch.nn.functional.pad(images, (2, 2, 0, 0), mode="replicate")
            part = [padded[..., step : step + images.shape[-1]] for step in range(5)]
            total = part[2] * _wide(weights[:, 0])
            total.addcmul_(part[1] + part[3], _wide(weights[:, 1])).addcmul_(part[0] + part[4], _wide(weights[:, 2]))
            images = _round(total)
        images = images.transpose(2, 3)
    return images


def solarize(images: Tensor, threshold: int) -> Tensor:
    """Invert the levels at or above ``threshold``."""
    return torch.where(images < threshold, images, _LEVELS - images)


def equalize(images: Tensor) -> Tensor:
    """Equalise the histogram of every channel."""
    levels = images.long().flatten(2)
    histogram = torch.zeros(*levels.shape[:2], 256, dtype=torch.long, device=images.device)
    histogram.scatter_add_(2, levels, torch.ones_like(levels))
    in_last = histogram.gather(2, levels.amax(dim=2, keepdim=True))
    step = (levels.shape[2] - in_last) // 255
    below = histogram.cumsum(2) - histogram
    table = ((step // 2 + below) // step.clamp(min=1)).clamp(max=255)
    # Pillow leaves a channel with too few different pixels as it is.
    return torch.where(step > 0, table.gather(2, levels), levels).view_as(images).float()


def _cubic_weights(start: Tensor, length: Tensor, pixels: int, size: int) -> Tensor:
    """Compute weights ``(N, size, pixels)`` of the pixels from ``start`` on for each of ``size`` results."""
    position = torch.arange(pixels, device=start.device) + 0.5 - start[:, None]  # within the box
    scale = (length / size)[:, None]
    centre = (torch.arange(size, device=start.device) + 0.5) * scale
    x = ((position[:, None, :] - centre[:, :, None]) / scale.clamp(min=1)[:, :, None]).abs()
    near = (x * (_CUBIC + 2)).sub_(_CUBIC + 3).mul_(x).mul_(x).add_(1)
    far = (x - 5).mul_(x).add_(8).mul_(x).sub_(4).mul_(_CUBIC)
    inside = (position > 0) & (position < length[:, None])
    weights = torch.where(x < 1, near, far).mul_(x < 2).mul_(inside[:, None, :])
    return weights.div_(weights.sum(dim=2, keepdim=True))


def _round(values: Tensor) -> Tensor:
    """Round to whole levels in place: the operations are memory-bound, and new tensors would dominate their cost."""
    return values.add_(0.5).floor_().clamp_(0, _LEVELS)


def _wide(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)
