"""The whole pipeline, stage by stage: data → network → prior and posterior → epochs → reductions → evaluation.

`occamax.fit` does all of this in one call; here each part is in sight. About a minute on two cores.

    python examples/prune_mlp.py [EPOCHS [STEPS]]
"""

import sys

import jax
import jax.numpy as jnp

import occamax as ox
from occamax.data.held_out import HeldOut
from occamax.evaluation import Believed, predict, score
from occamax.inference.training import Stepper, start


def main(epochs: int = 10, steps: int = 100) -> None:
    # data: bytes stay bytes; one example is standardised when it is used
    dataset = ox.load_data("fashion_mini")
    train = jnp.asarray(dataset.train.inputs), jnp.asarray(dataset.train.targets)
    test = jnp.asarray(dataset.test.inputs), jnp.asarray(dataset.test.targets)

    # model: a plain network, as one vector of random weights under a prior
    network = ox.MLP(dataset.shape, dataset.classes, key=jax.random.key(0))
    model = ox.Model(network, train[0][0], ox.FlatPrior(), preprocess=dataset.standardise())
    print(f"{model.layout.size:,} weights in {len(model.layout.blocks)} layers")

    # the first posterior, and the compiled parts
    optimizer = ox.AdaBelief()(ox.schedules.Cosine(1e-2), epochs * steps)
    key = jax.random.key(1)
    posterior = ox.MeanField(init_std=0.1).start(ox.init.VarianceScaled()(model, key))
    state = start(model, posterior, optimizer, key)._replace(kl_weight=jnp.float32(0.1))  # a tempered posterior
    reduction = ox.Reduction(ox.criteria.SpikeAndSlab())
    epoch_of = Stepper(model, optimizer).epoch(steps, batch_size=128, held_out=HeldOut(len(train[0])))
    train_epoch = jax.jit(epoch_of, donate_argnums=0)
    reduce_once = jax.jit(lambda state: ox.reduce(model, state, reduction))
    evaluate = jax.jit(lambda state: predict(model, Believed(state.posterior, state.mask), key, *test, num_samples=20))

    for epoch in range(epochs):
        if epoch >= 3:  # let the means fit first
            state, _ = reduce_once(state)
        state, _ = train_epoch(state, train)
        figures = score(model, evaluate(state), dataset.test.targets)
        left = int(state.mask.sum())
        print(f"epoch {epoch + 1}: accuracy {figures['accuracy']:.3f}  nll {figures['nll']:.3f}  {left:,} weights left")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
