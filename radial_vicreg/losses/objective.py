"""Radial-VICReg as one module: the weighted sum of every term, over all views and all ranks."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from radial_vicreg.losses._checks import (
    checked_batch,
    checked_flag,
    checked_setting,
    checked_spacing,
    full_precision,
)
from radial_vicreg.losses._chi import chi_quantiles
from radial_vicreg.losses._draws import DrawingModule
from radial_vicreg.losses._log_terms import LogTerms
from radial_vicreg.losses._statistics import ViewStatistics, gathered_views, twice_the_mean, view_statistics
from radial_vicreg.losses._tracing import is_exported, is_transformed
from radial_vicreg.losses.e2mc import e2mc_of
from radial_vicreg.losses.mean import mean_loss_of
from radial_vicreg.losses.radial import (
    REVERSE_KL_TARGETS,
    chi_cross_entropy_of,
    reverse_kl_of,
    spacing_entropy_of,
    wasserstein_of,
)
from radial_vicreg.names.terms import ADDED, VICREG, terms_of
from radial_vicreg.runtime.distributed import is_distributed, world_size


class RadialVICRegLoss(DrawingModule):
    r"""VICReg plus a radial term on each view.

    .. math::
        \lambda_1 s+\frac2V\sum_{v=1}^V[\lambda_2 v(Z_v)+\lambda_3 c(Z_v)+R(Z_v)]

    for V views, two in the paper. Terms of one view count as twice their mean over the views, which for two is their
    sum. :math:`s` is the mean squared difference over the pairs of views, and :math:`R` is :math:`\beta_1`
    cross-entropy :math:`-\,\beta_2` entropy (``"kl"``), :math:`\gamma\,W_1` (``"wasserstein"``), the weighted reverse
    KL (``"reverse_kl"``) or nothing (``"none"``, plain VICReg).

    Under ``torch.distributed`` statistics are computed over the global batch. Only the invariance and the cross-entropy
    are means over this rank's samples, so the loss averaged over ranks and every gradient averaged by DDP equal those
    of one process with the whole batch. Batches must be of equal size on every rank.

    After each call ``terms`` maps these names to detached 0-d tensors (reading them does not wait for a GPU; terms that
    the loss does not need are computed when read):

    - ``loss``: the total; ``vicreg_loss + radial_loss + e2mc_loss_weight * e2mc + mean_loss_weight * mean_loss``.
    - ``vicreg_loss``: weighted sum of the next three.
    - ``vicreg_invariance``; ``vicreg_variance``, ``vicreg_covariance``: twice the mean over the views.
    - ``radial_loss``: weighted sum of the chosen objective's terms; 0 for ``"none"``.
    - ``radial_ce`` (divided by d when ``radial_ce_normalize``), ``radial_entropy``: twice the mean over the views;
      always present, part of the loss for ``"kl"`` only.
    - ``radial_w1``, ``radial_reverse_kl``: twice the mean over the views, present when that objective is chosen.
    - ``e2mc``: twice the mean over the views, present when its weight is positive.
    - ``radial_kl`` (nats), ``w1_chi`` (Wasserstein-1 distance to the exact chi quantiles), ``radius_mean``,
      ``radius_std``: means over the views, of the radii that the radial terms use (centred when ``radial_center``).
    - ``mean_loss``: twice the mean over the views; part of the loss when its weight is positive.
    - ``embedding_mean_norm``: norm of the batch mean, mean over the views.
    - ``embedding_mean_share``: square of that norm divided by the mean squared radius, mean over the views; near 1, the
      radii are those of an offset shared by all embeddings.
    - ``embedding_trace``: trace of the covariance over d - 1 (over 1 for d = 1), mean over the views.

    Without chi samples it is a plain function for ``torch.func`` (also ``jacrev`` and ``vmap``; ``terms`` stays empty),
    ``torch.compile(fullgraph=True)`` and ``torch.export``; non-finite values are not checked there.

    Args:
        sim_loss_weight: :math:`\lambda_1`, of the invariance.
        var_loss_weight: :math:`\lambda_2`, of the variance.
        cov_loss_weight: :math:`\lambda_3`, of the covariance.
        radial_objective: ``"kl"``, ``"wasserstein"``, ``"reverse_kl"`` or ``"none"``.
        radial_ce_loss_weight: :math:`\beta_1` ("rlw"), of the cross-entropy.
        radial_ent_loss_weight: :math:`\beta_2` ("rlew"), of the entropy.
        radial_ce_normalize: divide the cross-entropy by d.
        radial_spacing: m of the entropy; ``None`` is ``round(sqrt(N))`` of the global batch.
        radial_w1_loss_weight: :math:`\gamma`, of the Wasserstein term. The authors' code divides radii by
            :math:`\sqrt{d-1}` by default, which changes the weight: see :func:`radial_wasserstein_loss`.
        radial_w1_target: ``"samples"`` (new chi samples, as in the paper) or ``"quantiles"`` (exact).
        radial_reverse_kl_loss_weight: of the reverse KL; see :func:`radial_reverse_kl_loss`.
        e2mc_loss_weight: of E2MC, with any radial objective.
        mean_loss_weight: of :func:`mean_loss`, with any radial objective; the paper has no such term.
        radial_center: take the radii of z minus the (global) batch mean. The paper does not.
        seed: seed of the chi samples, which depend on it and on the number of training-mode calls that sampled so far.
            Objectives that sample keep the number in the ``state_dict``, so a resumed run has the samples of an
            uninterrupted one.
        gather_distributed: take statistics over all ranks; ``False`` keeps them local, without communication.

    Raises:
        ValueError: an argument is out of range; the message names it.

    Examples:
        >>> import torch
        >>> from radial_vicreg.losses import RadialVICRegLoss
        >>> z1 = (3**0.5 * torch.eye(4)).requires_grad_()
        >>> z2 = 2 * z1.detach()
        >>> criterion = RadialVICRegLoss(radial_ce_loss_weight=10.0)
        >>> loss = criterion(z1, z2)
        >>> loss.backward()
        >>> round(loss.item(), 3)
        30.597
        >>> {name: round(criterion.terms[name].item(), 3) for name in ("vicreg_loss", "radial_loss", "radius_mean")}
        {'vicreg_loss': 25.285, 'radial_loss': 5.312, 'radius_mean': 2.598}
        >>> round(criterion(z1, z1, z2, z2).item(), 3)  # any number of views
        24.347
    """

    def __init__(
        self,
        *,
        sim_loss_weight: float = 25.0,
        var_loss_weight: float = 25.0,
        cov_loss_weight: float = 1.0,
        radial_objective: str = "kl",
        radial_ce_loss_weight: float = 100.0,
        radial_ent_loss_weight: float = 0.0,
        radial_ce_normalize: bool = True,
        radial_spacing: int | None = None,
        radial_w1_loss_weight: float = 1.0,
        radial_w1_target: str = "samples",
        radial_reverse_kl_loss_weight: float = 1.0,
        e2mc_loss_weight: float = 0.0,
        mean_loss_weight: float = 0.0,
        radial_center: bool = False,
        seed: int = 0,
        gather_distributed: bool = True,
    ) -> None:
        """Check and keep the weights; see the class."""
        super().__init__(seed)
        self.sim_loss_weight = checked_setting("sim_loss_weight", sim_loss_weight)
        self.var_loss_weight = checked_setting("var_loss_weight", var_loss_weight)
        self.cov_loss_weight = checked_setting("cov_loss_weight", cov_loss_weight)
        self.radial_objective = checked_setting("radial_objective", radial_objective)
        self.radial_ce_loss_weight = checked_setting("radial_ce_loss_weight", radial_ce_loss_weight)
        self.radial_ent_loss_weight = checked_setting("radial_ent_loss_weight", radial_ent_loss_weight)
        self.radial_ce_normalize = checked_setting("radial_ce_normalize", radial_ce_normalize)
        self.radial_spacing = checked_setting("radial_spacing", radial_spacing)
        self.radial_w1_loss_weight = checked_setting("radial_w1_loss_weight", radial_w1_loss_weight)
        self.radial_w1_target = checked_setting("radial_w1_target", radial_w1_target)
        self.radial_reverse_kl_loss_weight = checked_setting(
            "radial_reverse_kl_loss_weight", radial_reverse_kl_loss_weight
        )
        self.e2mc_loss_weight = checked_setting("e2mc_loss_weight", e2mc_loss_weight)
        self.mean_loss_weight = checked_setting("mean_loss_weight", mean_loss_weight)
        self.radial_center = checked_setting("radial_center", radial_center)
        self.gather_distributed = checked_flag("gather_distributed", gather_distributed)
        self._terms: dict[str, Tensor] = {}
        self._unread: LogTerms | None = None

    def forward(self, *views: Tensor, **keywords: Tensor) -> Tensor:
        """Compute the total loss of the views of one batch; ``terms`` then holds its parts.

        Args:
            *views: embeddings of each of V >= 2 views on this rank, shape ``(N, d)``, or all in one tensor
                ``(V, N, d)``; float16, bfloat16, float32 or float64.
            **keywords: ``z1`` and ``z2``, two views by name instead.

        Returns:
            0-d tensor, at least float32. Computing it does not wait for a GPU.

        Raises:
            ValueError: fewer than two views, another keyword, wrong dtype or shape, fewer than two rows,
                ``radial_spacing`` out of 1..N-1 or, on a CPU, non-finite values. When ranks gather, every rank raises
                if the input of one is invalid, or if the number of views or the batch shapes differ.
        """
        gather = self.gather_distributed and is_distributed()
        views = checked_batch(views, keywords, agree=gather)
        count = views[0].shape[0] * (world_size() if gather else 1)
        m = checked_spacing(self.radial_spacing, count)
        # Sample first: torch.compile cannot include SciPy and generators in its graph.
        targets = self._chi_targets(count, views)
        with full_precision(views[0]):
            statistics = view_statistics(views, gather, self.radial_center, self.mean_loss_weight > 0)
            ordered = self._ordered_radii(statistics.all_squared_norms)
            terms = self._vicreg_terms(statistics) | self._radial_terms(statistics, ordered, targets, m)
            terms["loss"] = terms["vicreg_loss"]
            # Do not add zero: torch.compile would take the sum for the detached `vicreg_loss` and drop its gradient.
            if self.radial_objective != "none":
                terms["loss"] = terms["loss"] + terms["radial_loss"]
            if self.e2mc_loss_weight > 0:
                terms["e2mc"] = twice_the_mean([e2mc_of(z) for z in (gathered_views(views) if gather else views)])
                terms["loss"] = terms["loss"] + self.e2mc_loss_weight * terms["e2mc"]
            if self.mean_loss_weight > 0:
                terms["mean_loss"] = 2 * mean_loss_of(statistics.mean)
                terms["loss"] = terms["loss"] + self.mean_loss_weight * terms["mean_loss"]
        if is_transformed():  # wrapped tensors are invalid after the transform
            self._terms, self._unread = {}, None
        elif not is_exported():
            self._terms = {name: term.detach() for name, term in terms.items()}
            radii = statistics.squared_norms.detach(), ordered.detach()
            mean = statistics.mean.detach()
            self._unread = LogTerms(*radii, mean, m, self.radial_ce_normalize, self.radial_center)
        return terms["loss"]

    @property
    def terms(self) -> dict[str, Tensor]:
        """Every named term of the last call (see the class); empty before the first."""
        if self._unread is not None:
            with torch.no_grad(), full_precision(self._unread.squared_norms):
                self._terms = {**self._unread.compute(), **self._terms}
            self._unread = None
        return self._terms

    @property
    def draws_samples(self) -> bool:
        """Whether a call samples from the chi distribution, so that the call counter matters."""
        samples = self.radial_objective == "wasserstein" and self.radial_w1_target == "samples"
        return samples or self.radial_objective == "reverse_kl"

    def extra_repr(self) -> str:
        """Show the settings that the objective reads, and all others that differ from their defaults."""
        terms = terms_of(self.radial_objective)
        read = {"radial_objective", *(term.weight.name for term in (*VICREG, *terms))}
        read |= {key.name for term in (*terms, *ADDED) if getattr(self, term.weight.name) for key in term.reads}
        read |= {"radial_center"} if terms else set()
        read |= {"seed"} if self.draws_samples else set()
        defaults = {name: given.default for name, given in inspect.signature(RadialVICRegLoss).parameters.items()}
        shown = (name for name in defaults if name in read or getattr(self, name) != defaults[name])
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)

    def _ordered_radii(self, squared: Tensor) -> Tensor:
        """Sort the radii of all ranks, one column per view; with gradient if a term needs it."""
        return (squared if self._uses_order else squared.detach()).sqrt().T.sort(dim=0).values

    def _vicreg_terms(self, statistics: ViewStatistics) -> dict[str, Tensor]:
        return {
            "vicreg_invariance": statistics.invariance,
            "vicreg_variance": statistics.variance,
            "vicreg_covariance": statistics.covariance,
            "vicreg_loss": (
                self.sim_loss_weight * statistics.invariance
                + self.var_loss_weight * statistics.variance
                + self.cov_loss_weight * statistics.covariance
            ),
        }

    def _radial_terms(
        self, statistics: ViewStatistics, ordered: Tensor, targets: Tensor | None, m: int
    ) -> dict[str, Tensor]:
        if self.radial_objective == "kl":
            dim = statistics.mean.shape[1]
            terms = {"radial_ce": 2 * chi_cross_entropy_of(statistics.squared_norms, dim, self.radial_ce_normalize)}
            terms["radial_loss"] = self.radial_ce_loss_weight * terms["radial_ce"]
            if self._uses_order:
                terms["radial_entropy"] = 2 * spacing_entropy_of(ordered, m)
                terms["radial_loss"] = terms["radial_loss"] - self.radial_ent_loss_weight * terms["radial_entropy"]
        elif self.radial_objective == "wasserstein":
            assert targets is not None
            terms = {"radial_w1": 2 * wasserstein_of(ordered, targets)}
            terms["radial_loss"] = self.radial_w1_loss_weight * terms["radial_w1"]
        elif self.radial_objective == "reverse_kl":
            assert targets is not None
            columns = zip(ordered.unbind(1), targets.unbind(1), strict=True)
            terms = {"radial_reverse_kl": twice_the_mean([reverse_kl_of(*pair) for pair in columns])}
            terms["radial_loss"] = self.radial_reverse_kl_loss_weight * terms["radial_reverse_kl"]
        else:
            terms = {"radial_loss": ordered.new_zeros(())}
        return terms

    @property
    def _uses_order(self) -> bool:
        """Whether sorted radii carry a gradient; otherwise only the log uses them."""
        if self.radial_objective == "kl":
            return self.radial_ent_loss_weight > 0
        return self.radial_objective != "none"

    def _chi_targets(self, count: int, views: tuple[Tensor, ...]) -> Tensor | None:
        """Return the target chi radii of ``count`` embeddings per view: one column per view, or one for all."""
        if self.radial_objective == "reverse_kl":
            return self._draws(REVERSE_KL_TARGETS, views)
        if self.radial_objective != "wasserstein":
            return None
        if self.radial_w1_target == "quantiles":
            z = views[0]
            return chi_quantiles(count, z.shape[1], z.dtype, z.device)[:, None]
        return self._draws(count, views).sort(dim=0).values
