"""The jobs that look at the test set, once, with what the validation lines chose:

    finals.py LINES.jsonl… QUEUE

By held-out NLL: plain training's optimiser, rate, decay and dropout, dense and (at 95 %) pruned; the noise's λ too.
"""

import json
import sys
from pathlib import Path

lines = [json.loads(line) for path in sys.argv[1:-1] for line in Path(path).read_text().splitlines()]
lines = [line for line in lines if line["epochs"] == 50 and not line.get("augment") and "test" not in line["mean"]]


def best(plain: bool, sparsity: float) -> dict:
    def loss(line):
        if plain:
            return min(line[part]["held_nll"] for part in ("mean", "early") if line[part])
        return line["draws"]["held_nll"]

    found = [x for x in lines if (x["config"]["noise"] == 0) == plain and x["config"]["sparsity"] == sparsity]
    if not plain:
        found = [x for x in found if x["config"]["score"] == "df" or not sparsity]
    for line in sorted(found, key=loss):
        print(f"{line['config']['name']:24} {sparsity} {loss(line):.4f}")
    return min(found, key=loss)["config"]


chosen = {(plain, pruned): best(plain, 0.95 if pruned else 0) for plain in (False, True) for pruned in (False, True)}
lanes = [
    {**chosen[plain, sparsity > 0], "seed": seed, "sparsity": sparsity, "score": "mag" if plain else "df"}
    for seed in (1, 2, 3)
    for sparsity in (0, 0.8, 0.9, 0.95, 0.98)
    for plain in (False, True)
]
lanes += [{**chosen[plain, True], "seed": 1, "sparsity": 0.5, "score": "mag" if plain else "df"} for plain in (0, 1)]
for i in range(0, len(lanes), 8):
    job = {"name": f"t{i // 8 + 1}", "epochs": 50, "test": True, "lanes": lanes[i : i + 8]}
    (Path(sys.argv[-1]) / f"3{job['name']}.json").write_text(json.dumps(job))
