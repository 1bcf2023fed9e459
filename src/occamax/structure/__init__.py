"""What a network is, read from its traced program. Import its modules; the graph itself does not wait for jax."""
