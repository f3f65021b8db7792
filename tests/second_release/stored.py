"""What 0.2.0 called its runs, frozen: names, hashes, folders."""

from __future__ import annotations

from typing import NamedTuple


class Stored(NamedTuple):
    """The runs of one configuration, all of whose settings 0.2.0 hashed.

    Attributes:
        config_hash: of the run.
        experiment_hash: of its seeds.
        name: in ``results.json`` and, under solo-learn's script, in ``args.json``.
        arguments: what the run was given besides ``overrides.txt`` and what no identity depends on.
        folders: relative to the fixtures.
    """

    config_hash: str
    experiment_hash: str
    name: str
    arguments: str
    folders: tuple[str, ...]


_KL = "method_kwargs.radial_ce_loss_weight=1 method_kwargs.radial_ent_loss_weight=0.1 precision=32"
_REST = "w1x1-samples-e2mc0-cenTrue-centerFalse-mNone"

STORED = (
    Stored(
        "d8230bc818a2",
        "bff5bf45560a",
        f"radialvicreg-tiny-vit_tiny-d8-kl-ce1-ent0.1-lr0.3-seed5-{_REST}-r-535111bd-4379a3a0",
        f"{_KL} max_epochs=2",
        (
            "standalone/runs/radialvicreg-custom-vit_tiny-d8-d8230bc818a2/20261129-192316",
            "solo/runs/radialvicreg-custom-vit_tiny-d8-d8230bc818a2/20261129-192608",
            "main_pretrain/trained_models/radialvicreg/0",
            "without_last/runs/radialvicreg-custom-vit_tiny-d8-d8230bc818a2/20261129-192735",
        ),
    ),
    Stored(
        "226601383b8f",
        "bff5bf45560a",
        f"radialvicreg-tiny-vit_tiny-d8-kl-ce1-ent0.1-lr0.3-seed6-{_REST}-r-202b03a9-4379a3a0",
        f"{_KL} max_epochs=2 seed=6",
        ("standalone/runs/radialvicreg-custom-vit_tiny-d8-226601383b8f/20261129-192428",),
    ),
    Stored(
        "b60a17e1bacd",
        "7214e4065c74",
        "vicreg-tiny-vit_tiny-d8-h8-sim25-var25-cov1-lr0.3-clr0.1-wu0-seed5-ec3dad5c-4379a3a0",
        "shared/method=vicreg precision=32 max_epochs=2",
        ("standalone/runs/vicreg-custom-vit_tiny-d8-b60a17e1bacd/20261129-192355",),
    ),
    Stored(
        "15c9bb484344",
        "b5831e3342b3",
        f"radialvicreg-tiny-vit_tiny-d8-kl-ce1-ent0.1-lr0.3-seed5-{_REST}-r-6f7bde36-4379a3a0",
        f"{_KL} max_epochs=3",
        (
            "standalone/runs/radialvicreg-custom-vit_tiny-d8-15c9bb484344/20261129-192545",
            "solo/runs/radialvicreg-custom-vit_tiny-d8-15c9bb484344/20261129-192625",
            "main_pretrain/trained_models/radialvicreg/1",
            "handed_out/runs/radialvicreg-custom-vit_tiny-d8-15c9bb484344/20261129-193215",
        ),
    ),
    Stored(
        "e47dc02102f2",
        "c87be0fc1aa1",
        f"radialvicreg-tiny-vit_tiny-d8-kl-ce1-ent0.1-lr0.001-seed5-{_REST}-6f4296a3-4379a3a0",
        f"{_KL} max_epochs=3 optimizer.lr=0.001",
        ("other_rate/runs/radialvicreg-custom-vit_tiny-d8-e47dc02102f2/20261129-192554",),
    ),
    Stored(
        "649b7f926b38",
        "380cb6132bb6",
        f"radialvicreg-tiny-vit_tiny-d8-kl-ce1-ent0-lr0.3-seed7-{_REST}-rkl-5e6b514a-4379a3a0",
        "method_kwargs.radial_ce_loss_weight=1 precision=32 max_epochs=2 seed=7",
        ("sweep/runs/radialvicreg-custom-vit_tiny-d8-649b7f926b38/20261129-193319",),
    ),
)

#: The runs of one hash in ``merged/runs``: settings that 0.2.0 did not hash, and the run's folder.
MERGED_HASH = "d8230bc818a2"
MERGED = {
    "": "20261129-192800",
    "+gradient_clip_val=0.01": "20261129-192832",
    "+gradient_clip_val=5.0": "20261129-192853",
    "+limit_train_batches=1": "20261129-192920",
    "data.format=device": "20261129-192953",
    "+gradient_clip_val=0.01 +gradient_clip_algorithm=value": "20261129-193030",
}
