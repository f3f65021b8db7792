"""What is frozen: configurations, their identities, tiny runs, what is made of them, and command lines."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
IMAGES = REPOSITORY / "tests" / "fixtures" / "second_release" / "images"  # 18 for training, 9 for validation

PARTS = ("augmentation", "backbone", "base", "dataset", "method", "optimizer", "setting", "sweeps")
CONFIGURATIONS = [  # by the names of 0.2, and so are their groups below: both are translated
    *sorted(
        name
        for file in (REPOSITORY / "yaml").rglob("*.yaml")
        if (name := file.relative_to(REPOSITORY / "yaml").with_suffix("").as_posix().removeprefix("radialvicreg/"))
        != "cell"  # an empty one
        and not name.startswith(PARTS)
    ),
    "cell +cifar100=resnet18/vicreg_d512",
    "synthetic",
]
IDENTITIES = [
    *(name for name in CONFIGURATIONS if name != "synthetic"),
    *(
        f"radialvicreg {override}"
        for override in (
            "shared/method=vicreg",
            "method_kwargs.radial_objective=wasserstein",
            "method_kwargs.radial_objective=none",
            "method_kwargs.radial_ce_loss_weight=50",
            "method_kwargs.small_image_stem=false",
            "shared/backbone=vit_tiny",
            "shared/optimizer=adamw",
            "optimizer.batch_size=512",
            "precision=16",
            "precision=32",
            "precision=auto",
            "accumulate_grad_batches=2",
            "max_epochs=100",
            "sync_batchnorm=true",
            "devices=[0,1]",
            "seed=6",
            "data.on_bad_image=skip",
            "data.cache=ram",
        )
    ),
]

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
_NETWORKS = {
    "standalone": "+backbone.kwargs={patch_size:16,img_size:32,depth:1,embed_dim:24,num_heads:1}",
    "solo": "+backbone.kwargs={patch_size:16,img_size:32}",  # depth and width of solo-learn's vit_tiny are fixed
}
_OBJECTIVES = {
    "kl": [],
    "wasserstein": ["method_kwargs.radial_objective=wasserstein"],
    "vicreg": ["radialvicreg/method=vicreg"],
}
RUNS = {
    **{
        f"{host}-{objective}": [*TINY, f"host={host}", "backbone.name=vit_tiny", network, *overrides]
        for host, network in _NETWORKS.items()
        for objective, overrides in _OBJECTIVES.items()
    },
    "standalone-resnet18": [*TINY, "host=standalone"],
}
RUN_TOPICS = ("folders", "checkpoints", "logged", "results", "numbers")
"""What is frozen of each run: a file a topic."""

PRODUCTS = {
    "standalone-kl": [
        "probe RUN --add-to-results",
        "probe RUN --features projector --untrained --add-to-results",
        "probe RUN --probe mlp --add-to-results",
        "probe RUN --probe knn --add-to-results",
        "export RUN --format timm",
        "export RUN --format safetensors",
    ],
    "standalone-resnet18": ["export RUN --format torchvision"],
    "solo-kl": ["probe RUN --add-to-results", "export RUN --format timm"],
}
"""What is done with a run after its training; ``RUN`` stands for its folder."""

_HELP = [
    f"{command} --help"
    for command in (
        *("pretrain", "synthetic", "sweep", "configs", "runs", "compare", "probe", "report", "export", "data", "solo"),
        "doctor",
    )
]
COMMANDS = [
    "",
    "--help",
    "--version",
    "pretran",
    *_HELP,
    "synthetic figure --help",
    "doctor",
    "doctor now",
    "pretrain --nonsense",
    "pretrain --config-name GONE",
    "pretrain --config-path GONE",
    "pretrain --cfg job",
    "pretrain --cfg hydra",
    "pretrain --multirun seed=1,2",
    "pretrain --info",
    "pretrain --check TINY",
    "pretrain --check TINY optimizer.batch_size=500",
    "pretrain max_epoch=1",
    "pretrain max_epochs=1,2",
    "pretrain max_epochs=[",
    "pretrain shared/method=byol",
    "pretrain shared/dataset=folder",
    "pretrain shared/dataset=folder data.train_path=GONE",
    "pretrain shared/dataset=folder data.train_path=FOLDER",
    "pretrain TINY method=byol",
    "pretrain TINY method_kwargs.nonsense=1",
    "pretrain TINY +method_kwargs.nonsense=1",
    "pretrain TINY method_kwargs.radial_objective=cauchy",
    "pretrain TINY method_kwargs.proj_output_dim=many",
    "pretrain TINY optimizer.batch_size=0",
    "pretrain TINY optimizer.name=nonsense",
    "pretrain TINY backbone.name=nonsense",
    "pretrain TINY max_epochs=0",
    "pretrain TINY precision=12",
    "pretrain TINY host=nowhere",
    "pretrain TINY data.format=nonsense",
    "pretrain TINY data.val_path=null",
    "pretrain TINY ckpt=last",
    "pretrain TINY runs_dir=FILE",
    "pretrain TINY checkpoint.dir=GONE",
    "pretrain TINY tag=",
    "sweep",
    "sweep GONE",
    "sweep FILE",
    "sweep tables/figure4 --list",
    "sweep tables/figure4 --status",
    "sweep tables/figure4 --for-pretrain",
    "sweep tables/figure4 --index 999",
    "sweep tables/figure4 --list --run",
    "configs",
    "configs --config-path GONE",
    "runs GONE",
    "runs FOLDER",
    "runs RUN",
    "runs RUN --json",
    "compare RUN RUN",
    "compare RUN FOLDER",
    "compare RUN",
    "probe",
    "probe GONE",
    "probe FOLDER",
    "probe RUN --probe forest",
    "probe RUN --val GONE",
    "export FOLDER",
    "export RUN --format torchvision",
    "export RUN --format timm --out FILE",
    "report",
    "report GONE",
    "report FOLDER",
    "report FOLDER --out FILE",
    "data",
    "data digits --size 3",
    "data digits --out FILE",
    "data imagenet10",
    "data imagenet10 --imagenet GONE",
    "data celeba --source FOLDER",
    "solo",
    "solo GONE",
    "synthetic nonsense=1",
    "synthetic steps=many",
    "synthetic distribution=nonsense",
    "synthetic steps=2 num_samples=50 out=FILE",
    "synthetic figure 2",
    "synthetic sweep --shard 3",
]
"""Command lines; ``TINY`` stands for the overrides of a tiny run, ``RUN`` for the folder of one (``standalone-kl``)."""
