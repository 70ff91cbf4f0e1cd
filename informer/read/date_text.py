"""Possible formats of a date: every strptime format that can read its text, the most common first.

Nothing is guessed: for a text with two possible orders of day, month and year both are returned, and the rows of its
column decide (see `times`). Formats are those of pandas, and `%q` for quarters; a final `Z` means UTC, as in ISO 8601.
Names of months and weekdays may be English, German, French, Spanish, Italian, Portuguese or Dutch (of months also
Scandinavian), those of quarters and weeks Q, T, KW, W or S.
"""

import calendar
import re
import unicodedata
from functools import lru_cache

from informer.config.data import ISO

_MONTH_NAMES = (
    "january januar janner jaenner janvier enero gennaio janeiro januari",
    "february februar feber fevrier febrero febbraio fevereiro februari",
    "march marz maerz mrz mars marts marzo marco maart mrt",
    "april avril abril aprile",
    "may mai maj mayo maggio maio mei",
    "june juni juin junio giugno junho",
    "july juli juillet julio luglio julho",
    "august augusti aout agosto augustus",
    "september septembre septiembre setiembre settembre setembro",
    "october oktober octobre octubre ottobre outubro",
    "november novembre novembro noviembre",
    "december dezember desember decembre diciembre dicembre dezembro",
)
"""Names of the months without accents; any beginning of three letters or more that no other month has is one too."""

_MONTH_OF = {
    name[:length]: number
    for number, names in enumerate(_MONTH_NAMES, start=1)
    for name in names.split()
    for length in range(3, len(name) + 1)
}
del _MONTH_OF["jui"]  # June or July

_DAY_NAMES = (
    "monday tuesday wednesday thursday friday saturday sunday "
    "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag "
    "lundi mardi mercredi jeudi vendredi samedi dimanche lunes martes miercoles jueves viernes sabado domingo "
    "lunedi martedi mercoledi giovedi venerdi sabato domenica segunda terca quarta quinta sexta "
    "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"
)
_DAY_BEGINNINGS = {name[:length] for name in _DAY_NAMES.split() for length in range(2, len(name) + 1)}

_WORD = re.compile(r"[^\W\d_]{3,}\.?")
_LEADING_DAY = re.compile(r"([^\W\d_]{2,})(?:-feira)?[.,]{0,2} +(?=\d)")
_ASIAN_DAY = re.compile(r" ?(?:[(（][月火水木金土日一二三四五六月화수목금토일][)）]|(?:星期|周)[一二三四五六日天])")
_ORDINAL, _OF = re.compile(r"(?<=\d)(?:er|st|nd|rd|th|[ºª°])(?=\W)"), re.compile(r"(?<=\w) del? (?=\w)")

HALF = re.compile(r" ?([AaPp])\. ?[Mm]\.(?=\s|$)")
"""a. m. and p. m., as in Spanish, or a.m. and p.m."""

_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([ T]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?)?")
_NAME = "(?:" + "|".join([*calendar.month_name[1:], *calendar.month_abbr[1:]]) + ")"
_WEEKDAY = r"(?:(?P<weekday>" + "|".join([*calendar.day_name, *calendar.day_abbr]) + r")(?P<after>,? ))?"
_TIME = (
    r"(?:(?P<gap>T|_|:|-| - |[,;]? {1,3}(?:at )?|,)(?P<clock>"
    r"\d{1,2}(?:(?P<mark>[:.h])\d{2}(?:(?P=mark)\d{2}(?:[.,]\d{1,9})?)?)?(?P<half> ?[ap]m)?|\d{4}(?:\d{2})?)"
    r"(?P<zone> ?(?:z|(?-i:[A-Z]{3,4})|[+-]\d{2}:?\d{2}))?)?"
)

_SAME, _JOINT, _BESIDE = r"(?P<same>[/.-] ?| )", r"[ ./,-]{0,2}", r"(?: ?[-/.:,'] ?| )?"
_QUARTER = r"(?:[qt] ?[1-4]|[1-4](?: ?[qt]|(?:\.|st|nd|rd|th)? (?:quarter|quartal)))"
_HALF = r"(?:[hs] ?[12]|[12] ?[hs])"
_WEEK = r"(?:(?:w|kw|week|semaine|semana) ?\d{1,2}|s\d\d)"

_DAYS = (
    (rf"\d{{4}}{_SAME}\d{{1,2}}(?P=same)\d{{1,2}}\.?", "Y m d", "Y d m"),
    (rf"\d{{1,2}}{_SAME}\d{{1,2}}(?P=same)\d{{4}}\.?", "d m Y", "m d Y"),
    (rf"\d{{1,2}}{_SAME}\d{{1,2}}(?P=same)\d\d\.?", "d m y", "m d y", "y m d"),
    (rf"\d{{1,2}}{_JOINT}{_NAME}{_JOINT}\d{{4}}", "d b Y"),
    (rf"\d{{1,2}}{_JOINT}{_NAME}{_JOINT}\d\d", "d b y", "y b d"),
    (rf"{_NAME}{_JOINT}\d{{1,2}}(?:,? ?|[/-])\d{{4}}", "b d Y"),
    (rf"\d{{4}}{_JOINT}{_NAME}{_JOINT}\d{{1,2}}", "Y b d"),
    (r"\d{8}(?=.)", "Ymd", "Ydm", "dmY", "mdY"),  # without a time of day they may be any number
    (r"\d{4} ?[年년](?: ?\d{1,2} ?[月월](?: ?\d{1,2} ?[日일号])?)?", "Y m d"),
)
"""Patterns of dates, before which there may be a weekday and after which a time of day, and the directives that may
stand for their numbers and names, in the order of preference."""

_PERIODS = (
    (r"\d{4}[/.:-]\d{1,2}", "Y m", "Y q", "Y y", "G V"),
    (r"\d{1,2}[/.-]\d{4}", "m Y", "q Y", "V G"),
    (r"\d{4}[/.-]\d{4}", "Y y"),
    (rf"{_NAME}(?:[-/.] ?| '?|')\d\d", "b y"),
    (rf"\d{{4}}{_JOINT}{_NAME}", "Y b"),
    (rf"{_NAME}{_JOINT}\d{{4}}", "b Y"),
    (rf"\d{{4}}{_BESIDE}m ?\d{{1,2}}", "Y m"),
    (rf"m ?\d{{1,2}}{_BESIDE}\d{{4}}", "m Y"),
    (rf"(?:FY ?)?\d{{4}}{_BESIDE}{_QUARTER}", "Y q"),
    (rf"(?:FY ?)?\d\d{_BESIDE}{_QUARTER}", "y q"),
    (rf"{_QUARTER}{_BESIDE}(?:FY ?)?\d{{4}}", "q Y"),
    (rf"{_QUARTER}{_BESIDE}(?:FY ?)?\d\d", "q y"),
    (rf"\d{{4}}{_BESIDE}{_HALF}", "Y q"),
    (rf"{_HALF}{_BESIDE}\d{{4}}", "q Y"),
    (rf"\d{{4}}{_BESIDE}{_WEEK}", "G V"),
    (rf"{_WEEK}{_BESIDE}\d{{4}}", "V G"),
)
"""Patterns of longer periods, and their directives, which do not stand for numbers out of their ranges."""

_ROWS = [(re.compile(_WEEKDAY + f"(?P<date>{each})" + _TIME, re.IGNORECASE), orders) for each, *orders in _DAYS]
_ROWS += [(re.compile(f"(?P<date>{each})", re.IGNORECASE), orders) for each, *orders in _PERIODS]
_TOKEN = re.compile(
    rf"(?<=\b[qt])[1-4](?=\d)|(?<!\d)\d{{1,2}}(?=\d{{4}}(?!\d))|\d+|(?<![^\W\d_]){_NAME}(?![^\W\d_])", re.IGNORECASE
)
_RANGES = {"d": range(1, 32), "m": range(1, 13), "q": range(1, 5), "V": range(1, 54)}
_ORDERS = {"d": "day", "m": "month", "b": "month", "B": "month", "y": "year", "Y": "year"}

USUAL_YEARS = range(1800, 2200)
"""Years that eight digits may start or end with: 14022002 could be 1402 or 2002."""


@lru_cache(maxsize=1024)  # the first rows of many files are alike
def date_formats(text: str) -> tuple[str, ...]:
    """The possible formats of a date with an optional time of day; empty if the text is not a date.

    Years have four digits, or two in dates of three numbers or with the name of a month. Eight digits without
    separators are a date only if a time of day follows. For names of months other than in English, it is the format of
    the text `in_english`.
    """
    formats = _formats_of(text)
    return formats if formats or (english := in_english(text)) == text else _formats_of(english)


def in_english(text: str) -> str:
    """A date without its weekday, and with a short English name of its month, such as 5 Mar 2024 for mar. 5 mars 2024.

    Marks of ordinal numbers (1er), `de` between the parts and the points of `a. m.` are left out.
    """
    text = HALF.sub(r" \1m", text)
    day = _LEADING_DAY.match(text)
    text = text[day.end() :] if day and _without_accents(day[1]) in _DAY_BEGINNINGS else _ASIAN_DAY.sub("", text)
    named = _WORD.sub(lambda word: calendar.month_abbr[month_of(word[0])] or word[0], text)
    return named if named == text else _OF.sub(" ", _ORDINAL.sub("", named))


def month_of(name: str) -> int:
    """The number of a month by its name, long or short, in any case; 0 for other text."""
    return _MONTH_OF.get(_without_accents(name.strip().removesuffix(".")), 0)


def order(time_format: str) -> tuple[str, ...]:
    """Order of day, month and year in a format."""
    letters = "Ymd" if time_format == ISO else "".join(re.findall(r"%([dmbByY])", time_format))
    return tuple(_ORDERS[letter] for letter in letters)


def is_season(first: str, last: str) -> bool:
    """Whether two years follow each other, such as 2004 and 05, or 2004 and 2005."""
    return str(int(first) + 1).endswith(last) and len(last) > 1


def _without_accents(text: str) -> str:
    return unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()


def _formats_of(text: str) -> tuple[str, ...]:
    is_iso = _ISO.fullmatch(text) is not None
    for pattern, orders in _ROWS:
        if (match := pattern.fullmatch(text)) is not None:
            tokens = _TOKEN.findall(match["date"])
            fitting = [each for each in orders if all(map(_fits, each.split(), tokens, tokens[::-1]))]
            if len(tokens) == 3 and fitting:
                fitting = orders  # all rows decide, if this is no time of day such as 18.00.00
            return tuple(ISO if is_iso and each in ("Y m d", "Y m") else _written(match, each) for each in fitting)
    return (ISO,) if is_iso else ()  # with an offset of two digits


def _fits(directives: str, token: str, other: str) -> bool:
    """Whether a number is in the range of its directives; `other` is the one on the other side."""
    if len(directives) == 3:
        return int(token[:4] if directives[0] == "Y" else token[4:]) in USUAL_YEARS
    if directives == "y" and len(other) == 4:
        return is_season(other, token)
    return directives not in _RANGES or int(token) in _RANGES[directives]


def _written(match: re.Match[str], directives: str) -> str:
    """The format of a date with these directives, and of the weekday, the time of day and the zone next to it."""
    found = match.groupdict()
    letters, weekday, before = iter(directives.split()), found.get("weekday"), ""
    if weekday:
        before = ("%A" if weekday.title() in calendar.day_name else "%a") + match["after"]
    date = _TOKEN.sub(lambda token: _directive(next(letters), token[0]), match["date"])
    date = re.sub("%q(nd|rd|th)", "%qst", date, flags=re.IGNORECASE)
    if not found.get("gap"):
        return before + date
    clock, half, zone = match["clock"], match["half"] or "", match["zone"] or ""
    if clock.isdigit() and len(clock) > 2:
        clock = "%H%M%S"[: len(clock)]
    else:
        parts = iter(("%I" if half else "%H", "%M", "%S", "%f"))
        clock = re.sub(r"\d+", lambda _: next(parts), clock.removesuffix(half)) + half[:-2] + "%p" * bool(half)
    if len(name := zone.strip()) > 1:  # a Z is kept as written, and means UTC
        zone = zone.replace(name, "%Z" if name.isalpha() else "%z")
    return f"{before}{date}{match['gap']}{clock}{zone}"


def _directive(letters: str, token: str) -> str:
    if letters == "b" and len(token) > 3:
        return "%B"
    return "0" * (letters == "q" and token[0] == "0") + "".join(f"%{letter}" for letter in letters)
