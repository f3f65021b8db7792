"""What is frozen: configurations, identities, a tiny run of each host, and what is made of it."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "tests" / "fixtures" / "second_release" / "images"  # 18 for training, 9 for validation

CONFIGURATIONS = ["radialvicreg", "imagenet10/resnet18/vicreg_d512"]
"""The one that all others are based on, and one that says most of what a cell may say."""

IDENTITIES = ["imagenet10/resnet18/vicreg_d512", "celeba/resnet18/vicreg_d512", "study2/vicreg"]
"""Configurations with additions, whose hashes are not those of 0.2: runs since then are found by them."""

CORRECTED_SINCE_0_2 = {f"study/full/radial_{name}" for name in ("kl", "centred", "w1")}
"""Configurations that are another experiment now: in 0.2 they lacked the small stem that the full study asks for."""

TINY = [
    "radialvicreg/dataset=folder",
    f"data.train_path={IMAGES / 'train'}",
    f"data.val_path={IMAGES / 'val'}",
    "data.num_workers=0",
    "method_kwargs.proj_hidden_dim=8",
    "method_kwargs.proj_output_dim=8",
    "optimizer.batch_size=6",
    "max_epochs=1",
    "scheduler.warmup_epochs=0",
    "accelerator=cpu",
    "strategy=auto",
    "precision=32",
    "probes.mlp_hidden_dim=8",
    "probes.encoder_knn=true",
    "probes.knn_neighbours=[3]",
    "probes.frozen_linear=true",
]
NETWORK = ["backbone.name=vit_tiny", "+backbone.kwargs={patch_size:16,img_size:32,depth:1,embed_dim:24,num_heads:1}"]
RUNS = {host: [*TINY, f"host={host}", *NETWORK] for host in ("standalone", "solo")}
RUN_TOPICS = ("folders", "checkpoints", "logged", "results", "numbers")
"""What is frozen of each run: a file a topic."""

PRODUCTS = [
    "probe RUN --add-to-results",
    "probe RUN --features projector --untrained --add-to-results",
    "probe RUN --probe mlp --add-to-results",
    "probe RUN --probe knn --add-to-results",
    "export RUN --format timm",
    "export RUN --format safetensors",
]
"""What is done with the run of the embedded host after its training; ``RUN`` stands for its folder."""
