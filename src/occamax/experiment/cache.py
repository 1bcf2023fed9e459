"""Compiled programs kept on disk, so that a second run of the same shape starts at once."""

import os

import jax


def keep_compiled_programs() -> None:
    """Uses the user's cache folder, unless jax was told of another with JAX_COMPILATION_CACHE_DIR."""
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    import platformdirs

    jax.config.update("jax_compilation_cache_dir", str(platformdirs.user_cache_path("occamax") / "compiled"))
