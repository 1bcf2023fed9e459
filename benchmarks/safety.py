"""Whether `bmr` is safe: few images, few steps, against plain training with the same budget.

    python benchmarks/safety.py [--networks mlp lenet] [--images 1000 3000 10000 60000] [--out safety.jsonl]
    python benchmarks/safety.py --table safety.jsonl

Fashion-MNIST; run it with --steps 500 and with --steps 50. `map` is the paper's plain training, `plain` the same with
the recipe's start, prior and cosine rate.
"""

import trials

from occamax.methods import BMR, MAP, Plain

METHODS = {"map": MAP(), "AdamW": Plain(), "bmr": BMR()}
COLUMNS = ("map", "plain", "AdamW", "bmr")  # plain: of older files, without weight decay or temperature


def main() -> None:
    parser = trials.parser(__doc__)
    parser.add_argument("--data", default="fashion_mnist")
    parser.add_argument("--networks", nargs="+", default=["mlp", "lenet"])
    parser.add_argument("--images", nargs="+", type=int, default=[1_000, 3_000, 10_000, 60_000])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    options = parser.parse_args()
    if options.table:
        print(table(trials.lines_of(options.table)))
        return
    wanted = [
        trials.Trial(options.data, network, METHODS[method], {"method": method}, images)
        for network in options.networks
        for images in options.images
        for method in options.methods
    ]
    trials.run(wanted, options)


def table(lines: list[dict]) -> str:
    """Accuracy / NLL / ECE of each method, bmr's pruned share, and how far it is ahead of the better of the others."""
    places = dict.fromkeys((line["network"], line["images"], line["epochs"], line["steps"]) for line in lines)
    columns = [name for name in COLUMNS if any(line["method"] == name for line in lines)]
    rows = []
    for place in places:
        found = {
            line["method"]: line
            for line in lines
            if (line["network"], line["images"], line["epochs"], line["steps"]) == place
        }
        network, images, epochs, steps = place
        cells = [
            " / ".join(trials.short(found[method][name]) for name in ("accuracy", "nll", "ece"))
            if method in found
            else ""
            for method in columns
        ]
        others = {method: line["accuracy"] for method, line in found.items() if method != "bmr"}
        ahead = ""
        if "bmr" in found and others:
            rival = max(others, key=lambda method: others[method])
            ahead = f"{100 * (found['bmr']['accuracy'] - others[rival]):+.1f} ({rival})"
        pruned = trials.short(found["bmr"]["sparsity"], 2) if "bmr" in found else ""
        rows.append([network, f"{images:,}", f"{epochs} × {steps}", *cells, pruned, ahead])
    return trials.markdown(["network", "images", "steps", *columns, "pruned", "points ahead (of)"], rows)


if __name__ == "__main__":
    main()
