"""Other libraries: what they found, in our words, and back. Each file names arrays and calls; none computes."""
