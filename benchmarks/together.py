"""Several networks as one (`ox.ensemble`) beside one: sparse ones of ours beside dense ones of an opponent.

    python benchmarks/together.py DATA NETWORK METHOD [--set VALUE …] [--members 2 3 5] [--images N] --out FILE
    python benchmarks/together.py --table FILE

Trains as many seeds as the largest number of members, one after the other, and makes an ensemble of the first so many,
each calibrated on what its members held out. *alone* are the figures of one, the mean over those seeds. With --test on
the test set, otherwise on a fifth of the training examples, at most 10,000. What is in FILE already is not run again.
"""

import numpy as np
import trials

import occamax as ox
from occamax.command_words import method_from_words
from occamax.experiment.cache import keep_compiled_programs
from occamax.experiment.environment import environment

SHOWN = ("accuracy", "nll", "ece", "ece_floor")


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("network", nargs="?")
    parser.add_argument("method", nargs="?")
    parser.add_argument("--set", nargs="*", default=[], dest="changes", help="values of the method, as for train")
    parser.add_argument("--members", nargs="+", type=int, default=[2, 3, 5])
    parser.add_argument("--images", type=int, help="train on that many examples only")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
    elif options.method is None:
        parser.error("DATA, NETWORK and METHOD are needed")
    else:
        measure(options)


def measure(options) -> None:
    keep_compiled_programs()
    names = ("data", "network", "method", "changes", "images", "epochs", "steps", "test", "first_seed")
    labels = {name: getattr(options, name) for name in names}
    done = [line["members"] for line in trials.lines_of(options.out) if labels.items() <= line.items()]
    wanted = sorted(set(options.members) - set(done))
    if not wanted:
        return
    dataset = ox.load_data(options.data, options.data_dir)
    if not options.test:
        dataset = dataset.hold_out(min(10_000, len(dataset.train) // 5))
    if options.images is not None:
        dataset = dataset.first(min(options.images, len(dataset.train)))
    network, method = ox.network_named(options.network), method_from_words(options.method, options.changes)
    fits = []
    for seed in range(options.first_seed, options.first_seed + wanted[-1]):
        fits.append(ox.fit(
            network, dataset, method, epochs=options.epochs, steps_per_epoch=options.steps, seed=seed,
            num_samples=options.samples, curve_samples=1, compute_dtype=options.precision,
        ))  # fmt: skip
        if len(fits) in wanted:
            line = {**labels, "precision": options.precision, **figures(fits, dataset), **environment()}
            print(line, flush=True)
            trials.keep(line, options.out)


def figures(fits: list, dataset: ox.Dataset) -> dict:
    """Of so many together, of those as they are without a common temperature, and of one alone, by seed."""
    together = ox.ensemble(fits, dataset)
    alone = {name: [round(fitted.history[-1][name], 5) for fitted in fits] for name in (*SHOWN, "sparsity", "neg_elbo")}
    raw = ox.Ensemble(fits).evaluate()
    return {
        "members": len(fits),
        **{name: round(together.figures[name], 5) for name in SHOWN},
        "temperature": together.temperature,
        "uncalibrated": {name: round(raw[name], 5) for name in SHOWN},
        "share": round(together.share, 5),
        "sparsity": round(together.sparsity, 5),
        "neg_elbo": float(np.mean(alone["neg_elbo"])),
        "alone": alone,
        "settings": fits[0].method.as_data(),
        "command": trials.command(),
    }


def table(lines: list[dict]) -> str:
    """A row an ensemble: what one is alone, what all are together, and how much there is of them."""
    heads = ["data", "network", "method", "steps", "measured on", "networks", "weights, of one dense network's"]
    heads += ["accuracy", "NLL", "ECE", "its floor", "accuracy of one", "NLL of one", "ECE of one", trials.BOUND]
    rows = []
    for line in lines:
        code = " ".join(f"`{word}`" for word in (line["method"], *line["changes"]))
        images = "" if line["images"] is None else f", {line['images']:,} examples"
        one = [trials.figure({name: np.mean(each), "each": line["alone"]}, name) for name, each in _alone(line)]
        bound = trials.bound({**line, "each": {"neg_elbo": line["alone"]["neg_elbo"]}})
        rows.append([
            line["data"] + images, line["network"], code, f"{line['epochs']} × {line['steps']}",
            "test" if line["test"] else "validation", str(line["members"]), f"{line['share']:.1%}",
            *(trials.short(line[name]) for name in SHOWN), *one, bound,
        ])  # fmt: skip
    said = {"data": "", "network": "", "steps": "", "measured on": ""}
    return trials.markdown(*trials.without_constants(heads, rows, said))


def _alone(line: dict):
    return [(name, line["alone"][name]) for name in ("accuracy", "nll", "ece")]


if __name__ == "__main__":
    main()
