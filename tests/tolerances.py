"""Every tolerance of the tests, with its reason."""

CLOSED_FORM = 1e-9  # float64 algebra against float64 algebra
QUADRATURE = 1e-7  # scipy's adaptive quadrature at its default accuracy
FINITE_DIFFERENCE = 1e-5  # central differences of step 1e-6 in float64
SINGLE = 2e-5  # float32 against float32 in another order of summation
STANDARD_ERRORS = 5  # of a Monte-Carlo mean: one false alarm in two million
ADAPTED = 1e-5  # outputs of a network here and in the library that it is from, float32
