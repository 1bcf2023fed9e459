"""MNIST's classic networks beside what others published: error and non-zero weights, all weights counted.

    python benchmarks/classics.py --seeds 3 --test --out results/classics.jsonl
    python benchmarks/classics.py --method bmr-natural --set "kl_weight=Ramp(1.0,0.1,0.6,1.0)" --no-plain …
    python benchmarks/classics.py --table results/classics.jsonl

The output layer may be reduced here too, as in the other papers. Published: Han et al. 2015 (dense, and pruned by
magnitude), Guo et al. 2016 (dynamic network surgery), Molchanov et al. 2017 (sparse variational dropout).
"""

import argparse
from dataclasses import replace

import numpy as np
import trials

from occamax.command_words import method_from_words
from occamax.methods import Method, Plain

# error in per cent, weights there were for each that is left
PUBLISHED = {
    "lenet-300-100": {"dense": (1.64, 1), "Han": (1.59, 12), "DNS": (1.99, 56), "Sparse VD": (1.92, 68)},
    "lenet-caffe": {"dense": (0.80, 1), "Han": (0.77, 12), "DNS": (0.91, 111), "Sparse VD": (0.75, 280)},
}


def with_output(method: Method) -> Method:
    """The method, whose reductions may take weights of the output layer too."""
    assert method.reduction is not None
    return replace(method, reduction=replace(method.reduction, keep_output=False))


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--networks", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--levels", nargs="*", type=float, default=[0.985, 0.99, 0.995, 0.996])
    parser.add_argument("--plain", action=argparse.BooleanOptionalAction, default=True, help="plain training too")
    parser.add_argument("--evidence", action=argparse.BooleanOptionalAction, default=True, help="evidence alone too")
    parser.add_argument("--method", default="bmr")
    parser.add_argument("--set", nargs="*", default=[], dest="changes", help="values of the method, as for train")
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    methods = {"plain training": Plain()} if options.plain else {}
    base, name = with_output(method_from_words(options.method, options.changes)), options.method
    name = " ".join([name, *(f"--set {change}" for change in options.changes)])
    if options.evidence:
        methods[name] = base
    for level in options.levels:
        methods[f"{name} --sparsity {level}"] = base.pruned_to(level, options.epochs)
    wanted = [
        trials.Trial("mnist", network, method, {"method": name})
        for network in options.networks
        for name, method in methods.items()
    ]
    trials.run(wanted, options)


def table(lines: list[dict]) -> str:
    """A line of ours has its bound, where it was kept; what was published has none."""
    rows, has_bounds = [], any("neg_elbo" in line for line in lines)
    for network, published in PUBLISHED.items():
        if all(line["network"] != network for line in lines):
            continue
        rows += [
            [network, f"{name}, published", f"{error:.2f} %", f"{100 / times:.2f} %", f"{times} ×", "–"]
            for name, (error, times) in published.items()
        ]
        for line in lines:
            if line["network"] == network:
                left = 1 - line["sparsity_of_all"]
                spread = 100 * float(np.std(line["each"]["accuracy"], ddof=1)) if line["seeds"] > 1 else None
                error = f"{100 * (1 - line['accuracy']):.2f}" + (f" ± {spread:.2f} %" if spread is not None else " %")
                rows.append([network, line["method"], error, f"{100 * left:.2f} %", f"{1 / left:.0f} ×"])
                rows[-1] += [trials.bound(line)] if has_bounds else []
    heads = ["network", "method", "error", "not zero", "fewer", *([trials.BOUND] if has_bounds else [])]
    return trials.markdown(heads, [row[: len(heads)] for row in rows])


def targets(lines: list[dict]) -> str:
    """Error and NLL of several ways to one target."""
    rows = []
    for line in lines:
        spread = f" ± {100 * float(np.std(line['each']['accuracy'], ddof=1)):.2f}" if line["seeds"] > 1 else ""
        error = f"{100 * (1 - line['accuracy']):.2f}{spread} %"
        rows.append([f"`{line['method']}`", error, trials.figure(line, "nll", 4), trials.figure(line, "ece", 4)])
    return trials.markdown(*trials.with_bounds(["method", "error", "NLL", "ECE"], rows, lines))


if __name__ == "__main__":
    main()
