"""NumPyro's guides: what the evidence says of each site, and the model without what may go.

    guide = AutoNormal(model)
    params = SVI(model, guide, Adam(1e-2), Trace_ELBO()).run(key, 5000, x, y).params
    found = reduce_guide(model, guide, params, x, y)
    found["w"].delta_f                  # nats, one a weight: positive favours its removal
    smaller = found.model(threshold=0)  # NumPyro goes on with this one: what went is zero

A guide is a Gaussian over sites that have Normal priors; both are read from the guide and from the traced model. ΔF is
`delta_f.removal` where the guide is independent, `delta_f.dense` where it has a covariance.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import ArgumentError
from ..reduction import delta_f as closed_forms

__all__ = ["GuideReduction", "Site", "reduce_guide"]

LARGEST = 2000  # weights of a guide with a covariance


@dataclass(frozen=True)
class Site:
    """One latent site: **mean** and **std** of its posterior, its prior's deviation **prior_std**, and **delta_f**, the
    evidence gained by each removal alone. All have the shape of the site.

    Examples:
        >>> site = ox.numpyro.Site(np.array([0.1]), np.array([0.2]), np.array([1.0]), np.array([1.48]))
        >>> site.delta_f > 0  # it may go
        array([ True])
    """

    mean: np.ndarray
    std: np.ndarray
    prior_std: np.ndarray
    delta_f: np.ndarray


@dataclass(frozen=True)
class GuideReduction(Mapping[str, Site]):
    """The **sites** by name, of the **original** model. **covariance** of all of them in one vector, in their order,
    where the guide has one. Made by `reduce_guide`.

    Raises:
        ArgumentError: masks of sites that are not there, or of another shape.

    Examples:
        >>> site = ox.numpyro.Site(np.array([0.1, 2.0]), np.array([0.2, 0.2]), np.ones(2), np.array([1.48, -48.4]))
        >>> found = ox.numpyro.GuideReduction(lambda: None, {"w": site})
        >>> found.masks()["w"].tolist()  # True stays
        [False, True]
    """

    original: Callable[..., Any]
    sites: dict[str, Site]
    covariance: Any = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def masks(self, threshold: float = 0.0) -> dict[str, np.ndarray]:
        """What stays, by site: what would not gain more than `threshold` nats by its removal."""
        return {name: np.asarray(site.delta_f <= threshold) for name, site in self.sites.items()}

    def joint_delta_f(self, masks: Mapping[str, Any]) -> float:
        """The evidence gained by removing everything that the masks leave out, at once: what one weight did another
        may take over, so it is not the sum. A guide without a covariance has only the sum."""
        keep = np.concatenate([np.ravel(_mask_of(masks, name, site)) for name, site in self.sites.items()])
        if self.covariance is None:
            every = np.concatenate([np.ravel(site.delta_f) for site in self.sites.values()])
            return float(every[~keep].sum())
        mean, full = (
            jnp.concatenate([jnp.ravel(jnp.asarray(getattr(site, name))) for site in self.sites.values()])
            for name in ("mean", "prior_std")
        )
        reduced = jnp.where(jnp.asarray(keep), full**2, 0.0)
        return float(closed_forms.dense(mean, self.covariance, reduced, full**2).delta_f)

    def model(self, threshold: float = 0.0, masks: Mapping[str, Any] | None = None) -> Callable[..., Any]:
        """The model in which what went is zero, wherever it is used. NumPyro can trace it, fit it anew, and sample from
        it; its sites keep their names and shapes, so that every guide and every reader still fits."""
        kept = self.masks(threshold) if masks is None else dict(masks)
        whole = {name: _mask_of(kept, name, site) for name, site in self.sites.items() if name in kept}
        for name in kept:
            _known(name, self.sites)
        return partial(_without, self.original, whole)


def reduce_guide(model: Callable[..., Any], guide: Any, params: Any, *args: Any, **kwargs: Any) -> GuideReduction:
    """ΔF of every latent of a **model**, from a **guide** that was fitted to it: `AutoNormal`, `AutoDiagonalNormal`,
    `AutoMultivariateNormal` or `AutoLaplaceApproximation`, and its **params**. **args** and **kwargs** are the model's,
    as in `SVI.run`.

    Raises:
        ArgumentError: another guide, or a site whose prior is not Normal around zero; hide it with
            `numpyro.handlers.block`, or fix it.

    Examples:
        >>> import numpyro
        >>> from numpyro.infer.autoguide import AutoNormal
        >>> def regression(x, y):
        ...     w = numpyro.sample("w", numpyro.distributions.Normal(0.0, 1.0).expand((8,)).to_event(1))
        ...     numpyro.sample("y", numpyro.distributions.Normal(x @ w, 1.0), obs=y)
        >>> guide = AutoNormal(regression)
        >>> params = {"w_auto_loc": jnp.array([1.0] + [0.0] * 7), "w_auto_scale": jnp.full(8, 0.1)}  # SVI finds them
        >>> found = ox.numpyro.reduce_guide(regression, guide, params, x, x[:, 0])
        >>> int(found.masks()["w"].sum())  # one of eight stays
        1
    """
    priors = _priors(model, args, kwargs)
    if type(guide).__name__ == "AutoNormal":
        moments = {name: _of_sites(guide, params, name) for name in priors}
        return GuideReduction(model, {name: _site(*moments[name], priors[name]) for name in priors})
    mean, covariance = _gaussian(guide, params)
    if covariance.ndim == 1:
        pairs = _unpacked(guide, mean), _unpacked(guide, jnp.sqrt(covariance))
        sites = {name: _site(pairs[0][name], pairs[1][name], priors[name]) for name in priors}
        return GuideReduction(model, sites)
    return _dense(model, guide, mean, covariance, priors)


def _dense(
    model: Callable[..., Any], guide: Any, mean: Any, covariance: Any, priors: dict[str, np.ndarray]
) -> GuideReduction:
    """The sites of a guide with a covariance, each weight removed by itself while the others take over."""
    if mean.size > LARGEST:
        raise ArgumentError(f"guide: a covariance of {mean.size} weights; up to {LARGEST} are reduced. Use AutoNormal")
    names = list(_unpacked(guide, mean))
    order = jnp.concatenate([jnp.ravel(part) for part in _unpacked(guide, jnp.arange(mean.size)).values()])
    mean, covariance = mean[order], covariance[order][:, order]  # sites one after the other
    full = jnp.concatenate([jnp.ravel(jnp.asarray(priors[name], mean.dtype)) for name in names]) ** 2

    def alone(i: Any) -> Any:
        return closed_forms.dense(mean, covariance, full.at[i].set(0.0), full).delta_f

    every = jax.lax.map(alone, jnp.arange(mean.size))
    ends = np.cumsum([priors[name].size for name in names])[:-1]
    stds = jnp.sqrt(jnp.diag(covariance))
    parts = [np.split(np.asarray(vector), ends) for vector in (mean, stds, every)]
    sites = {
        name: Site(
            m.reshape(priors[name].shape), s.reshape(priors[name].shape), priors[name], d.reshape(priors[name].shape)
        )
        for name, m, s, d in zip(names, *parts, strict=True)
    }
    return GuideReduction(model, sites, covariance)


def _site(mean: Any, std: Any, prior_std: np.ndarray) -> Site:
    gained = closed_forms.removal(jnp.asarray(mean), jnp.asarray(std) ** 2, jnp.asarray(prior_std) ** 2)
    return Site(np.asarray(mean), np.asarray(std), prior_std, np.asarray(gained))


def _of_sites(guide: Any, params: Any, name: str) -> tuple[Any, Any]:
    """Mean and deviation of a site of `AutoNormal`."""
    prefix = guide.prefix
    try:
        return params[f"{name}_{prefix}_loc"], params[f"{name}_{prefix}_scale"]
    except KeyError as error:
        raise ArgumentError(f"params: {error} is not among them; pass those that SVI found for this guide") from error


def _gaussian(guide: Any, params: Any) -> tuple[Any, Any]:
    """Mean and variances, or covariance, of a guide over one vector."""
    kinds = "AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLaplaceApproximation"
    kind = type(guide).__name__
    if kind not in kinds:
        raise ArgumentError(f"guide: {kind} given; it must be AutoNormal or one of {', '.join(kinds)}")
    posterior = guide.get_posterior(params)
    if kind == "AutoDiagonalNormal":
        return posterior.mean, posterior.variance
    return posterior.mean, posterior.covariance_matrix


def _unpacked(guide: Any, vector: Any) -> dict[str, Any]:
    """A vector of the guide's as arrays by site."""
    return guide._unpack_latent(vector)


def _priors(model: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[str, np.ndarray]:
    """The prior deviation of every latent site, from the traced model."""
    import numpyro.distributions as dist
    from numpyro import handlers

    traced = handlers.trace(handlers.seed(model, jax.random.key(0))).get_trace(*args, **kwargs)
    found = {}
    for name, site in traced.items():
        if site["type"] != "sample" or site["is_observed"]:
            continue
        prior: Any = site["fn"]
        shape = jnp.shape(site["value"])
        while isinstance(prior, dist.Independent | dist.ExpandedDistribution):
            prior = prior.base_dist
        is_normal = type(prior) is dist.Normal
        if not is_normal or np.any(np.asarray(prior.loc) != 0):
            kind = "a Normal around another number than zero" if is_normal else type(prior).__name__
            raise ArgumentError(
                f"model: the prior of site {name!r} is {kind}; ΔF here is of sites with Normal priors around zero. "
                "Hide it with numpyro.handlers.block, fix it with numpyro.handlers.substitute, or write it as one"
            )
        found[name] = np.broadcast_to(np.asarray(prior.scale), shape)
    if not found:
        raise ArgumentError("model: it has no latent site; there is nothing to reduce")
    return found


def _without(model: Callable[..., Any], masks: dict[str, np.ndarray], *args: Any, **kwargs: Any) -> Any:
    """The model, with what is not in the masks at zero."""
    with _Masked(masks):
        return model(*args, **kwargs)


def _Masked(masks: dict[str, np.ndarray]) -> Any:  # noqa: N802, a handler, as NumPyro's are
    """A handler that multiplies the values of some sites by their masks."""
    from numpyro.primitives import Messenger

    class Masked(Messenger):
        def postprocess_message(self, msg: dict[str, Any]) -> None:
            if msg["type"] == "sample" and msg["name"] in masks:
                msg["value"] = jnp.where(jnp.asarray(masks[msg["name"]]), msg["value"], 0.0)

    return Masked()


def _mask_of(masks: Mapping[str, Any], name: str, site: Site) -> np.ndarray:
    mask = np.asarray(masks.get(name, True), bool)
    if mask.shape not in ((), site.mean.shape):
        raise ArgumentError(f"masks: {name!r} has shape {mask.shape}; the site has {site.mean.shape}")
    return np.broadcast_to(mask, site.mean.shape)


def _known(name: str, sites: Mapping[str, Site]) -> None:
    if name not in sites:
        raise ArgumentError(f"masks: {name!r} is no latent site; they are {', '.join(sites)}")
