"""Selection of the experiment that fills a cell: the nearest to the paper's settings, or the best of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from radial_vicreg.names.counts import counted, first_of
from radial_vicreg.paper.values import Deviation, deviations, is_conditional, nearness, our_choices, paper
from radial_vicreg.report.collect import Experiment

Score = Callable[[Experiment], Sequence[float]]
"""Function that returns the validation metric for every seed of an experiment; its result is never empty."""


@dataclass
class Choice:
    """The experiment selected for a cell, and the reasons.

    Attributes:
        experiment: the selected experiment.
        deviations: its differences from the paper's cell, except in the swept keys.
        chosen: value of each swept key.
        candidates: number of experiments compared by score; 0 if no score was used.
        remarks: remarks on the selected experiment and on the others.
    """

    experiment: Experiment
    deviations: list[Deviation]
    chosen: dict[str, object] = field(default_factory=dict)
    candidates: int = 0
    remarks: list[str] = field(default_factory=list)


def choose_nearest(fitting: Sequence[Experiment], config: str, score: Score) -> Choice:
    """Select the experiment whose settings are nearest to the paper's; in a tie, the one with the most seeds.

    Args:
        fitting: experiments with the method of the cell, at least one.
        config: key of ``configs`` in ``paper.json``.
        score: score of an experiment, to count the seeds that have one.

    Returns:
        The choice; its remarks name the other experiments.
    """

    def rank(experiment: Experiment) -> tuple[Any, ...]:
        near = nearness(deviations(experiment.setting, config))
        return (*near, -len(score(experiment)), experiment.experiment_hash, experiment.setting.images)

    ordered = sorted(fitting, key=rank)
    choice = Choice(ordered[0], deviations(ordered[0].setting, config))
    if len(ordered) > 1:
        named = [_named(other, config) for other in ordered[1:]]
        what = "the nearest to the paper's settings of"
        choice.remarks.append(f"{what} {len(ordered)}; not used: {first_of(named)}")
    return choice


def choose_best(fitting: Sequence[Experiment], config: str, score: Score, swept: Sequence[str], by: str) -> Choice:
    """Select the experiment with the best mean score over the values of the swept keys.

    All compared experiments agree in every other setting with the experiment nearest to the paper.

    Args:
        fitting: experiments with the method of the cell and any values of the swept keys, at least one.
        config: key of ``configs`` in ``paper.json``.
        score: score of an experiment.
        swept: keys that may differ.
        by: name of the score.

    Returns:
        The choice, with the number of candidates and the selected values.
    """
    pool = _comparable(fitting, config, score, swept)

    def rank(experiment: Experiment) -> tuple[Any, ...]:
        values = score(experiment)
        return (-sum(values) / len(values), -len(values), experiment.experiment_hash)

    best = min(pool, key=rank)
    chosen = {key: _value(best, key) for key in swept if _is_swept(best, key)}
    seeds = sorted({len(score(experiment)) for experiment in pool})
    averaged = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else counted(seeds[0], "seed")
    values = ", ".join(f"{key} {value} ({_reference(config, key)})" for key, value in chosen.items())
    remarks = [f"chosen from {counted(len(pool), 'experiment')} by {by}, mean over {averaged}: {values}"]
    if len(fitting) > len(pool):
        others = counted(len(fitting) - len(pool), "more experiment")
        remarks.append(f"{others} with other values of settings that were not swept: not compared")
    return Choice(best, deviations(best.setting, config, free=swept), chosen, len(pool), remarks)


def _comparable(fitting: Sequence[Experiment], config: str, score: Score, swept: Collection[str]) -> list[Experiment]:
    """Return the experiments that agree with the nearest one in all settings that are not swept."""

    def rank(experiment: Experiment) -> tuple[Any, ...]:
        found = deviations(experiment.setting, config, free=swept)
        always = nearness([deviation for deviation in found if not is_conditional(deviation.key)])
        sometimes = nearness([deviation for deviation in found if is_conditional(deviation.key)])
        return (*always, -len(experiment.setting.details), *sometimes, -len(score(experiment)))

    anchor = min(fitting, key=rank).setting
    return [
        experiment
        for experiment in fitting
        if experiment.setting.family == anchor.family
        and all(
            str(experiment.setting.details.get(key, value if is_conditional(key) else None)) == str(value)
            for key, value in anchor.details.items()
            if key not in swept
        )
    ]


def _named(experiment: Experiment, config: str) -> str:
    found = ", ".join(map(str, deviations(experiment.setting, config))) or "also the paper's settings"
    return f"{experiment.experiment_hash} ({found})"


def _is_swept(experiment: Experiment, key: str) -> bool:
    return experiment.setting.objective == "kl" if key in ("beta1", "beta2") else key in experiment.setting.details


def _value(experiment: Experiment, key: str) -> Any:
    value = experiment.setting.weight(key) if key in ("beta1", "beta2") else experiment.setting.details[key]
    return f"{value:g}" if isinstance(value, float) else value


def _reference(config: str, key: str) -> str:
    whose = "our choice" if key in our_choices(config) else "paper"
    return f"{whose} {paper()['configs'][config].get(key)}"
