"""Steps in words."""

import pytest

from informer.read.frequency import Frequency, adjective, lasting


@pytest.mark.parametrize(
    ("code", "word", "n", "span"),
    [
        ("h", "hourly", 48, "48 hours"),
        ("h", "hourly", 168, "7 days"),
        ("h", "hourly", 100, "100 hours"),
        ("15min", "15-minute", 96, "24 hours"),
        ("15min", "15-minute", 7, "105 minutes"),
        ("30s", "30-second", 120, "1 hour"),
        ("D", "daily", 14, "14 days"),
        ("2D", "2-day", 7, "14 days"),
        ("B", "business-day", 5, "5 business days"),
        ("W-SUN", "weekly", 52, "52 weeks"),
        ("MS", "monthly", 12, "12 months"),
        ("QS-JAN", "quarterly", 1, "1 quarter"),
        ("YE-DEC", "yearly", 3, "3 years"),
        ("6h", "6-hour", 8, "48 hours"),
        # half a month, half a year and half a second are no multiples of a unit
        ("SMS-15", "SMS-15-step", 24, "24 rows"),
        ("HYS-JAN", "HYS-JAN-step", 2, "2 rows"),
        ("500ms", "500ms-step", 10, "10 rows"),
    ],
)
def test_steps(code: str, word: str, n: int, span: str) -> None:
    frequency = Frequency.parse(code)
    assert adjective(frequency) == word
    assert lasting(n, frequency) == span
