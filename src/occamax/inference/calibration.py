"""Examples kept out of training: they say after every epoch what an example costs, and calibrate the network at the
end."""

from dataclasses import dataclass

from ..data.held_out import HeldOut
from ..errors import ArgumentError


@dataclass(frozen=True)
class Calibration:
    """When training is over, two numbers make held-out examples likeliest. All deviations are multiplied by the first,
    the *noise*, which is the posterior at another KL weight wherever the data say more than the prior: draws that
    differ too much make a network less sure than it is right, and no temperature alone mends that
    (`docs/lab/notebook.md`). The outputs are divided by the second, the *temperature* (Guo et al. 2017). Which class is
    likeliest for an example hardly changes. Both go into the posterior, so nothing has to carry them along.

    **one_in** so many training examples is held out, the last of each, but not more than **most** in all; the network
    never trains on them. After every epoch they also say what an example costs, which `Affordable` and the guard of the
    reductions go by. **num_samples** draws of the weights are averaged at the end, **epoch_samples** after every epoch.
    **log_temperature_std** is the deviation of the temperature's logarithm under its prior, **log_noise_std** that of
    the noise: fifty examples say little about them, and leave them near one. None leaves the noise as it was trained.

    Raises:
        ArgumentError: a count that is no whole number, or too small.

    Examples:
        >>> ox.Calibration(one_in=10).held_out(1000).trained  # so many of 1000 examples are trained on
        900
        >>> uncalibrated = ox.BMR(calibration=None)
    """

    one_in: int = 20
    most: int = 2500
    num_samples: int = 30
    log_temperature_std: float = 0.2
    epoch_samples: int = 5
    log_noise_std: float | None = 0.3

    def __post_init__(self):
        for name, least in {"one_in": 2, "most": 1, "num_samples": 1, "epoch_samples": 1}.items():
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ArgumentError(f"{name}: {value!r} given; it must be a whole number from {least} up")
        for name in ("log_temperature_std", "log_noise_std"):
            value = getattr(self, name)
            if (value is None and name == "log_temperature_std") or (value is not None and not value > 0):
                raise ArgumentError(f"{name}: {value!r} given; it must be positive")

    def held_out(self, examples: int) -> HeldOut:
        """Which of so many are held out; none where there are too few for that."""
        spacing = max(self.one_in, -(-examples // self.most))
        return HeldOut(examples, spacing if examples >= 2 * spacing else 0)


def held_out_of(calibration: Calibration | None, examples: int) -> HeldOut:
    """Which of so many examples a method holds out."""
    return HeldOut(examples) if calibration is None else calibration.held_out(examples)
