"""The paper's experiments as one grid: run it, keep a small file for each cell, compare with what was published. Import
its modules; reading cells does not wait for jax."""
