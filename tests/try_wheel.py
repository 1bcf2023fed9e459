"""Run by `make wheel` with the installed wheel, outside of the source tree: a user's first minute."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import occamax as ox

assert "site-packages" in str(ox.__file__), ox.__file__
assert (files("occamax") / "py.typed").is_file()
with TemporaryDirectory() as place:
    data = ox.load_data("fashion_mini").first(300)
    fitted = ox.fit(
        ox.network_named("lenet-300-100"), data, epochs=2, steps_per_epoch=5, num_samples=2, out=f"{place}/run"
    )
    fitted.export(f"{place}/run/network.onnx")
    np.savez(f"{place}/images.npz", images=data.test.inputs[:3])
    command = [Path(sys.executable).parent / "occamax"]
    for words in (["data"], ["report", f"{place}/run", "--out", f"{place}/report.html"]):
        subprocess.run([*command, *words], check=True)
    subprocess.run([*command, "predict", f"{place}/run/network.onnx", f"{place}/images.npz"], check=True)
print("the wheel works")
