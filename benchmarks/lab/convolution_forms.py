"""Which form of a ResNet's convolutions is fastest in the compiled loop, for one seed and for several at once.

    python benchmarks/lab/convolution_forms.py --out FILE [--steps 100] [--batch 128] [--seeds 1 4] [--methods …]

A line for each: seconds to compile, milliseconds a step and a seed (the median of three loops). The images are the
embedded ones.
"""

import argparse
import json
import time
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import occamax as ox
from occamax.experiment.environment import environment
from occamax.experiment.problem import Data, build_model, read_data
from occamax.experiment.program import Program, Task
from occamax.inference.calibration import held_out_of
from occamax.methods import METHODS
from occamax.networks import _parts, resnet


def padded(product):
    def convolve(layer, image):
        return product(layer.weight, jnp.pad(image, ((0, 0), *layer.padding)), layer.stride)

    return convolve


FORMS = {
    "library": lambda layer, image: layer(image),
    "patches": padded(_parts._patches),
    "banded": padded(_parts._banded),
}


def timed(data: Data, form: str, method: str, dtype: str, seeds: int, options: argparse.Namespace) -> dict:
    chosen = METHODS[method]()
    budget = ox.Budget(50, options.steps, options.batch)
    with mock.patch.object(resnet, "convolve_padded", FORMS[form]):
        model = build_model(ox.network_named("resnet20"), data, chosen, None, None, dtype, ox.Devices())
        chosen = chosen.suited_to(model.layout)
        program = Program(Task(model, chosen, budget, held_out_of(chosen.calibration, len(data)), tuple(range(seeds))))
        loop, state = program.train_chunk[max(program.chunks)], program.with_kl_weight(program.start())
        train, laps = tuple(map(jnp.asarray, data.train)), []
        for _ in range(4):
            began = time.perf_counter()
            state, _ = jax.block_until_ready(loop(state, train))
            laps.append(time.perf_counter() - began)
    each = 1e3 * float(np.median(laps[1:])) / max(program.chunks) / seeds
    return {"form": form, "method": method, "dtype": dtype, "seeds": seeds, "ms": round(each, 4),
            "compiled": round(laps[0], 1)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--methods", nargs="+", default=["bmr-natural"])
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--dtypes", nargs="+", default=["bfloat16", "float32"])
    options = parser.parse_args()
    data = read_data(ox.load_data("fashion_mini"), image_size=ox.network_named("resnet20").image_size)
    for dtype in options.dtypes:
        for seeds in options.seeds:
            for form in options.forms:
                for method in options.methods:
                    line = {**timed(data, form, method, dtype, seeds, options), **environment()}
                    print({k: line[k] for k in ("form", "method", "dtype", "seeds", "ms", "compiled")}, flush=True)
                    with open(options.out, "a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
