"""Dew point and fog risk from the readings of the thermometer screen at Harrow Point."""

from __future__ import annotations

import math
from typing import NamedTuple

# Magnus coefficients over water, good from -45 to 60 °C.
FACTOR = 17.62
OFFSET = 243.12


class Reading(NamedTuple):
    """One observation: air and sea in °C, relative humidity in percent, wind in knots."""

    air: float
    sea: float
    humidity: float
    wind: float


def dew_point(air: float, humidity: float) -> float:
    """The temperature in °C at which this air begins to condense."""
    if not 0 < humidity <= 100:
        raise ValueError(f"relative humidity is {humidity}; it must be above 0 and at most 100")
    gamma = math.log(humidity / 100) + FACTOR * air / (OFFSET + air)
    return OFFSET * gamma / (FACTOR - gamma)


def humidity_from_bulbs(dry: float, wet: float, pressure: float = 1013.0) -> float:
    """Relative humidity in percent from the dry and the wet bulb (°C) and the pressure (hPa)."""
    vapour = saturation(wet) - 0.000662 * pressure * (dry - wet)
    return max(0.0, min(100.0, 100 * vapour / saturation(dry)))


def saturation(temperature: float) -> float:
    """Saturation vapour pressure over water in hPa."""
    return 6.112 * math.exp(FACTOR * temperature / (OFFSET + temperature))


def fog_risk(reading: Reading) -> str:
    """How likely sea fog is: "high", "watch" or "low".

    Sea fog forms when air is cooled to its dew point by colder water. A strong wind lifts it into low cloud.
    """
    margin = reading.sea - dew_point(reading.air, reading.humidity)
    if margin <= 0 and reading.wind < 20:
        return "high"
    return "watch" if margin < 2 else "low"


if __name__ == "__main__":
    morning = Reading(air=13.4, sea=9.8, humidity=94, wind=8)
    print(f"dew point {dew_point(morning.air, morning.humidity):.1f} °C, fog risk {fog_risk(morning)}")
