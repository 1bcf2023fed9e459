"""`python -m occamax`, for source trees that are not installed."""

from .cli import main

main()
