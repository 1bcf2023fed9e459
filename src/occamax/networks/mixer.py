"""MLP-Mixer: patches of 4 × 4, six layers that mix tokens, then channels. No dropout."""

from collections.abc import Sequence

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from ._parts import Feedforward, cut, per_token


class MixerBlock(eqx.Module):
    norm_tokens: eqx.nn.LayerNorm
    mix_tokens: Feedforward
    norm_channels: eqx.nn.LayerNorm
    mix_channels: Feedforward

    def __init__(self, tokens: int, width: int, token_hidden: int, channel_hidden: int, *, key: PRNGKeyArray):
        first, second = jax.random.split(key)
        self.norm_tokens = eqx.nn.LayerNorm(width)
        self.mix_tokens = Feedforward(tokens, token_hidden, key=first)
        self.norm_channels = eqx.nn.LayerNorm(width)
        self.mix_channels = Feedforward(width, channel_hidden, key=second)

    def __call__(self, x: Float[Array, "tokens width"]) -> Float[Array, "tokens width"]:
        x = x + self.mix_tokens(per_token(self.norm_tokens, x).T).T
        return x + self.mix_channels(per_token(self.norm_channels, x))


class Mixer(eqx.Module):
    """An MLP-Mixer over square patches of an image (channels, height, width).

    **input_shape** of one image, **classes** the number of outputs; **patch** pixels a side, **depth** layers of
    **width** channels; **token_hidden**, **channel_hidden** units in the two MLPs of a layer; **key** of the first
    weights.

    Examples:
        >>> small = ox.Mixer((3, 8, 8), 10, depth=1, width=8, token_hidden=8, channel_hidden=8, key=jax.random.key(0))
        >>> jax.eval_shape(small, jnp.zeros((3, 8, 8))).shape
        (10,)
    """

    embed: eqx.nn.Linear
    blocks: tuple[MixerBlock, ...]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear
    patch: int = eqx.field(static=True)

    def __init__(
        self,
        input_shape: Sequence[int],
        classes: int,
        patch: int = 4,
        depth: int = 6,
        width: int = 256,
        token_hidden: int = 512,
        channel_hidden: int = 512,
        *,
        key: PRNGKeyArray,
    ):
        channels, height, columns = input_shape
        tokens = (height // patch) * (columns // patch)
        first, last, *keys = jax.random.split(key, depth + 2)
        self.embed = eqx.nn.Linear(channels * patch * patch, width, key=first)
        self.blocks = tuple(MixerBlock(tokens, width, token_hidden, channel_hidden, key=k) for k in keys)
        self.norm = eqx.nn.LayerNorm(width)
        self.head = eqx.nn.Linear(width, classes, key=last)
        self.patch = patch

    def __call__(
        self, image: Float[Array, "channels height width"], key: PRNGKeyArray | None = None
    ) -> Float[Array, "classes"]:
        x = per_token(self.embed, cut(image, self.patch))
        for block in self.blocks:
            x = block(x)
        return self.head(per_token(self.norm, x).mean(0))
