"""Networks as files that run elsewhere: written and measured by `exporting`, opened by `predictor` without jax."""
