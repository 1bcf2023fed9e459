"""Faults of the report and of what a user sees, in the form of `faults.py`, which adds them to its table."""

REPORT = {
    "experiment/examining.py": (
        (
            "the least sure for the surest",
            "order = np.argsort(-confidence",
            "order = np.argsort(confidence",
            "report/test_page.py::test_examples_by_hand",
        ),
        (
            "the right ones for the wrong",
            "order[(said != labels)[order]]",
            "order[(said == labels)[order]]",
            "report/test_page.py::test_examples_by_hand",
        ),
        (
            "the surest fall out of the diagram",
            "np.minimum((confidence * bins).astype(int), bins - 1)",
            "(confidence * bins).astype(int) % bins",
            "report/test_page.py::test_examples_by_hand",
            "report/test_page.py::test_the_last_bin_holds_the_surest",
        ),
    ),
    "report/chart.py": (
        (
            "a chart upside down",
            "TOP + (1 - scale(value)) * (HEIGHT - TOP - BOTTOM)",
            "TOP + scale(value) * (HEIGHT - TOP - BOTTOM)",
            "report/test_page.py::test_higher_is_up",
        ),
        (
            "a page that ends in its data",
            '.replace("<", "\\\\u003c")',
            "",
            "report/test_page.py::test_points_that_are_no_numbers_are_left_out",
        ),
    ),
    "report/exported.py": (
        (
            "the first export of a name counts",
            'list({line["file"]: line for line in lines}.values())',
            'list({line["file"]: line for line in reversed(lines)}.values())',
            "report/test_page.py::test_it_is_whole_without_a_script",
        ),
    ),
    "experiment/progress.py": (
        (
            "a bar of what is left",
            "eighths = round(min(max(share, 0.0), 1.0) * width * 8)",
            "eighths = round((1 - min(max(share, 0.0), 1.0)) * width * 8)",
            "experiment/test_progress.py::test_bars_and_sparklines",
        ),
    ),
}
