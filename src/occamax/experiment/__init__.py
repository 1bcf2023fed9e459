"""Runs: everything that is trained is trained in one visible loop, and may be kept in a folder. Import its modules; a
reader of run folders (`folder`, `config`) does not wait for jax."""
