"""A folder of your own images, one folder a class: here some of the embedded ones, written as PNG files first.

python examples/image_folder.py [EPOCHS [STEPS]]
"""

import sys
from pathlib import Path

import jax
import numpy as np
from PIL import Image

import occamax as ox


def write_images(folder: Path, each: int = 150) -> None:
    """folder/Sandal/0000.png …: so many images of each class."""
    mini = ox.load_data("fashion_mini")
    for label, name in enumerate(mini.class_names or ()):
        place = folder / name.replace("/", " or ")
        place.mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(mini.train.inputs[mini.train.targets == label][:each]):
            Image.fromarray(image[0]).save(place / f"{number:04d}.png")


def main(epochs: int = 10, steps: int = 50, *, out: str = "runs/image_folder") -> None:
    write_images(Path(out).with_name("images"))
    data = ox.load_data(Path(out).with_name("images"), test_share=0.2)
    network = ox.MLP(data.shape, data.outputs, hidden=(100, 100), key=jax.random.key(0))
    fitted = ox.fit(network, data, epochs=epochs, steps_per_epoch=steps, num_samples=20, out=out, overwrite=True)
    loaded = ox.load(out, network)
    assert np.array_equal(loaded.predict(data.test.inputs[:9], 5), fitted.predict(data.test.inputs[:9], 5))
    measured = loaded.export(f"{out}/network.onnx")
    print(f"{fitted.sparsity:.0%} pruned; the file differs by {measured.difference:.0e} at most")
    print(f"report: {loaded.report(f'{out}/report.html')}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
