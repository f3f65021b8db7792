"""``radial-vicreg try [FOLDER] [key=value ...]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radial_vicreg.cli.parser import Parser
from radial_vicreg.cli.tables import print_table
from radial_vicreg.errors import UserError
from radial_vicreg.trial import CONFIGURATION

_STEM = "comparison"
_FIXED = ("radialvicreg/method", "method", "ckpt")  # set for each run


def parser() -> Parser:
    """Make the parser of this command."""
    made = Parser(
        prog="radial-vicreg try",
        description="Train VICReg, Radial-VICReg, and Radial-VICReg with a term that holds the mean at zero, briefly "
        "each, and compare their embeddings in one figure. Without FOLDER: on scikit-learn's handwritten digits.",
        example="radial-vicreg try ~/photos",
    )
    made.add_argument(
        "words",
        nargs="*",
        metavar="FOLDER | key=value",
        help="folder of your own images, of any size and type: one sub-folder per class, or train/ and val/ with the "
        "same classes, or images without labels; and Hydra overrides for all methods, such as max_epochs=8",
    )
    return made


def run(arguments: Sequence[str]) -> int:
    """Train the methods, print what was found in three sentences, and write the figure.

    Args:
        arguments: command line after ``try``.

    Returns:
        0.

    Raises:
        UserError: the folder has too few images, or an override is invalid.
        RunFailed: the loss became NaN or infinite.
        RunStopped: a signal was received; the same command resumes.
    """
    folder, overrides = _read(parser().parse_args(list(arguments)).words)
    if folder is not None and not folder.is_dir():  # before PyTorch is imported
        raise UserError(f"{folder} is not a folder (looked for {folder.resolve()}): pass a folder of images")
    from radial_vicreg.compose import compose, run_config
    from radial_vicreg.train.first_checks import check_names

    config = run_config(compose(CONFIGURATION, overrides))
    check_names(config)
    from radial_vicreg.figures import SUFFIXES, figure_files, figure_style
    from radial_vicreg.io.files import json_bytes
    from radial_vicreg.io.outputs import OutputFolder
    from radial_vicreg.trial.comparison import compare, train
    from radial_vicreg.trial.figure import comparison_figure
    from radial_vicreg.trial.images import digits, own_images
    from radial_vicreg.trial.summary import sentences, table
    from radial_vicreg.trial.threads import fastest_threads

    name = config.data.name if folder is None else folder.resolve().name
    out = OutputFolder(Path(config.runs_dir) / f"try-{name}", "try", setting="runs_dir=DIR")
    out.claim(f"{_STEM}{suffix}" for suffix in (".json", *SUFFIXES))
    images = digits() if folder is None else own_images(folder, out.path)
    print("\n".join(images.lines))
    print(f"threads: {fastest_threads()}")
    content = compare(train([*images.overrides, *overrides]))
    found = sentences(content)
    with figure_style():
        files = figure_files(comparison_figure(content), _STEM)
    written = out.write({**files, f"{_STEM}.json": json_bytes({**content, "sentences": found})})
    header, rows = table(content)
    print()
    print_table(header, rows, right=header[1:])
    print("\n" + "\n".join(found))
    print("\nwritten: " + ", ".join(map(str, written)))
    print(f"next: radial-vicreg diagnose {' '.join(method['run'] for method in content['methods'])}")
    if images.long_run:
        print(f"a long run: radial-vicreg pretrain {' '.join(images.long_run)} ckpt=auto")
    return 0


def _read(words: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Separate the folder from the overrides.

    Raises:
        UserError: there are several folders, or an override sets what the command sets for each run.
    """
    folders = [word for word in words if "=" not in word or Path(word).is_dir()]
    overrides = [word for word in words if word not in folders]
    if len(folders) > 1:
        raise UserError(f"expected one folder, got {len(folders)}: {', '.join(folders)}")
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if key in _FIXED:
            raise UserError(
                f"{override}: `radial-vicreg try` trains three methods and sets {key} itself; a single run is "
                f"`radial-vicreg pretrain --config-name {CONFIGURATION} {override}`"
            )
    return (Path(folders[0]).expanduser() if folders else None), overrides
