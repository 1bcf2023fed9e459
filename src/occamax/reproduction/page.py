"""What the grid comes to: figures, one table, and a page of it all."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ..names import LABELS
from ..report.figures import drawn
from ..storage import write_atomic
from .cells import CellResult, read_cells
from .claims import Check, Timings, checks, measured_timings
from .comparison import BETTER, BOUND, Row, compare, deviations
from .figures import TITLES, paper_figures
from .grid import DATA, METHODS, NETWORKS
from .published import COLUMNS, short

HEADS = {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE", "pruned": "pruned"}
ABOUT_TABLE = """\
Ours is the mean over seeds at the last epoch, ± the standard deviation of a seed where there are several. Bold: the
best method of that network and data set, ahead of every other by more than the deviations over seeds of the two, taken
together; with one seed, simply the best, but of ECE only beyond what chance makes, where that is known. An ECE without
its floor is of a run that did not keep one: a perfectly calibrated network with 10,000 test examples shows some .007 at
an accuracy of .9 and .015 at .3 to .6. −ELBO is the
negative evidence bound in nats, the KL weight at one, the mean over the last epoch's steps (a point estimate has none);
beside it what naming the mask would add, under the paper's own prior over masks."""
MARKS = {True: "holds", False: "does not hold", None: "not all of it run"}


def write_results(out: Path) -> list[CellResult]:
    """Draws the figures, writes table.md and README.md from the cells in `out`."""
    results = read_cells(out)
    if not results:
        return []
    (out / "figures").mkdir(parents=True, exist_ok=True)
    names = []
    for name, figure in paper_figures(results).items():
        names.append(name)
        write_atomic(out / "figures" / f"{name}.svg", drawn(figure, "svg"))
        write_atomic(out / "figures" / f"{name}.png", drawn(figure, "png", dpi=130))
    write_atomic(out / "table.md", table(compare(results)).encode())
    write_atomic(out / "README.md", page(results, names, _notes(out), measured_timings(out / "speed")).encode())
    return results


def _notes(out: Path) -> str:
    """What a person has to say about the results: the page carries it along, unchanged."""
    path = out / "NOTES.md"
    return path.read_text().strip() + "\n\n" if path.is_file() else ""


def page(results: Sequence[CellResult], figures: Sequence[str], notes: str, timings: Timings) -> str:
    rows = compare(results)
    missing = _missing({row.key for row in rows})
    pictures = "\n\n".join(f"![{name}](figures/{name}.png)" for name in figures)
    return f"""# The paper, reproduced

Marković, Friston and Kiebel (2023): its methods, networks, data sets and figures, run by `occamax reproduce`, which
also wrote this page.

{sum(row.key[2] in METHODS for row in rows)} of the paper's {len(DATA) * len(NETWORKS) * len(METHODS)} cells are here.
{circumstances(results)}

{f"Not run yet: {'; '.join(missing)}." if missing else "Nothing is missing."}

## What the paper says

{check_table(checks(results, timings))}

{notes}## Ours beside the published figures

[table.md](table.md) has every cell: ours, the published figure, the difference, the evidence bound. The published ones
are one seed, read off plots (accuracy and ECE ± .003, NLL ± .01, pruned ± .005). `cells/` holds each cell's
configuration, curves, summary, device and commit.

Ours differ from them, for better or worse, by more than .015 in accuracy, .04 in NLL (CIFAR-100 .15), .015 in ECE or
.05 in what is pruned, in these cells ({_counted(rows)}):

{deviation_table(rows)}

## Figures

Bands span the seeds, from the lowest to the highest.

{pictures}
"""


def _missing(keys: set[tuple[str, str, str]]) -> list[str]:
    """What of the grid was not run: a data set and network each, with the methods where not all are missing."""
    found = []
    for data in DATA:
        for network in NETWORKS:
            methods = [LABELS[method] for method in METHODS if (data, network, method) not in keys]
            some = f" ({', '.join(methods)})" if len(methods) < len(METHODS) else ""
            found += [f"{TITLES[data]} · {TITLES[network]}{some}"] if methods else []
    return found


def circumstances(results: Sequence[CellResult]) -> str:
    """Device, commits and precision, as the runs themselves noted them."""
    summaries = [summary for result in results for summary in result.group.summaries]
    devices = sorted({summary["device"] for summary in summaries})
    commits = sorted({(result.commit or "unknown")[:10] for result in results})
    halves = sum(result.group.config.compute_dtype != "float32" for result in results)
    draws = sorted({result.group.config.curve_samples or result.group.config.num_samples for result in results})
    text = f"Device: {', '.join(devices)}. Commit: {', '.join(commits)}. {len(summaries)} runs."
    text += f" {halves} of the cells in mixed precision (bfloat16 activations)." if halves else ""
    last = results[0].group.config.num_samples
    return text + f" Last values average {last} draws of the weights, curves {' or '.join(map(str, draws))}."


def check_table(found: Sequence[Check]) -> str:
    lines = ["| sentence | | numbers |", "|---|---|---|"]
    return "\n".join(lines + [f"| {check.sentence} | **{MARKS[check.holds]}** | {check.numbers} |" for check in found])


def _counted(rows: Sequence[Row]) -> str:
    """How many cells of each method deviate."""
    parts = []
    for method in METHODS:
        own = [row for row in rows if row.key[2] == method and row.published]
        parts += [f"{LABELS[method]} {sum(bool(deviations(row)) for row in own)} of {len(own)}"] if own else []
    return ", ".join(parts)


def deviation_table(rows: Sequence[Row]) -> str:
    """Every figure beyond its tolerance, of all methods, with its side."""
    lines = ["| data | network | method | seeds | better than published | worse |", "|---|---|---|--:|---|---|"]
    for row in rows:
        found = deviations(row)
        sides = [
            ", ".join(
                f"{HEADS[column]} {short(row.ours[column])} for {row.published[column]}"
                for column, value in found.items()
                if (value * BETTER[column] > 0) == better
            )
            for better in (True, False)
        ]
        if found:
            lines.append(f"| {' | '.join([*_names(row), str(row.seeds), *sides])} |")
    return "\n".join(lines)


def _names(row: Row) -> list[str]:
    data, network, method = row.key
    return [TITLES.get(data, data), TITLES.get(network, network), LABELS[method]]


def table(rows: Sequence[Row]) -> str:
    """Every cell as Markdown: ours, published, difference; bold where a method is the best of its network."""
    head = " | ".join(f"{HEADS[column]} | published | difference" for column in COLUMNS)
    lines = [
        "# Every cell beside the published figure",
        "",
        ABOUT_TABLE,
        "",
        f"| data | network | method | seeds | {head} | −ELBO | mask |",
        "|---|---|---|--:|" + "--:|" * (3 * len(COLUMNS) + 2),
    ]
    for row in rows:
        entries = [*_names(row), str(row.seeds)]
        for column in COLUMNS:
            entries += _entries(row, column)
        bound = "–" if row.neg_elbo is None else f"{row.neg_elbo:,.0f}{_spread(row, 'neg_elbo', '{:,.0f}'.format)}"
        bound = f"**{bound}**" if BOUND in row.best else bound
        entries += [bound, "" if row.mask_nats is None else f"+{row.mask_nats:,.0f}"]
        lines.append(f"| {' | '.join(entries)} |")
    return "\n".join(lines) + "\n"


def _spread(row: Row, name: str, text: Callable[[float], str] = short) -> str:
    value = (row.deviation or {}).get(name)
    return "" if value is None else f" ± {text(value)}"


def _entries(row: Row, column: str) -> list[str]:
    if column == "pruned" and not row.ours[column]:
        return ["", "", ""]
    ours, difference = short(row.ours[column]), row.difference(column)
    published = str(row.published[column]) if column in row.published else ""
    signed = "" if difference is None else f"{'+' if difference >= 0 else '−'}{short(abs(difference))}"
    floor = f" (floor {short(row.floor)})" if column == "ece" and row.floor is not None else ""
    return [(f"**{ours}**" if column in row.best else ours) + _spread(row, column) + floor, published, signed]
