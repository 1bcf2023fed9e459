"""What methods look like. Colours are Okabe and Ito's, safe for the colour-blind; dashes tell them apart in grey."""

from .runs import Group

STYLES = {  # method → colour, dashes
    "plain": ("#56B4E9", "-"),
    "map": ("#000000", "-"),
    "flat": ("#0072B2", (0, (6, 1.5))),
    "tiered": ("#009E73", (0, (3, 1.5, 1, 1.5))),
    "bmr-paper": ("#D55E00", (0, (1, 1))),
    "bmr-rhs": ("#CC79A7", (0, (5, 1, 1, 1, 1, 1))),
    "bmr": ("#E69F00", "-"),
    "bmr-natural": ("#882255", (0, (4, 1.5))),
}
OTHERS = ("#44AA99", "#999933", "#AA4499", "#117733")  # methods of the user's own
CURVES = {
    "accuracy": "accuracy",
    "rmse": "root mean squared error",
    "nll": "negative log-likelihood",
    "ece": "calibration error",
    "sparsity": "pruned fraction",
}


def style(group: Group) -> tuple:
    """A colour and dashes for a method; one of the user's own has always the same for its name. A second group of the
    same name has those of another method."""
    method = group.config.method
    own = STYLES.get(method) or (OTHERS[sum(method.encode()) % len(OTHERS)], "-")
    if group.number == 0:
        return own
    others = [one for one in (*STYLES.values(), *((colour, "-") for colour in OTHERS)) if one[0] != own[0]]
    return others[(group.number - 1) % len(others)]


def colour(group: Group) -> str:
    """For a page, where black is the colour of the text, light or dark."""
    found = style(group)[0]
    return "currentColor" if found == "#000000" else found


def dashes(group: Group) -> str:
    """As SVG has them; empty for a solid line."""
    found = style(group)[1]
    return "" if found == "-" else " ".join(f"{2 * length:g}" for length in found[1])
