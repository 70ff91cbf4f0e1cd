"""Possible formats of a date: every strptime format that can read its text, the most common first.

Nothing is guessed: for a text with two possible orders of day, month and year both are returned, and the rows of its
column decide (see `date_order`). Formats are those of pandas, and `%q` for quarters; a final `Z` means UTC, as in ISO
8601. Names of months and weekdays may be English, German, French, Spanish, Italian, Portuguese or Dutch (of
months also Scandinavian), those of quarters and weeks Q, T, KW, W or S.
"""

import calendar
import re
import unicodedata
from functools import lru_cache

from informer.config.data import ISO, QUARTER, WEEK

_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([ T]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?( ?(Z|[+-]\d{2}(:?\d{2})?))?)?)?")

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
_ASIAN_DAY = re.compile(r" ?(?:[(（][月火水木金土日一二三四五六월화수목금토일][)）]|(?:星期|周)[一二三四五六日天])")
_ORDINAL, _OF = re.compile(r"(?<=\d)(?:er|st|nd|rd|th|[ºª°])(?=\W)"), re.compile(r"(?<=\w) del? (?=\w)")

HALF = re.compile(r" ?([AaPp])\. ?[Mm]\.(?=\s|$)")
"""a. m. and p. m., as in Spanish, or a.m. and p.m."""

_LONG_NAMES = "|".join(calendar.month_name[1:])
_MONTHS = "(?i:" + "|".join([*calendar.month_name[1:], *calendar.month_abbr[1:]]) + ")"
_DAYS = "(?i:" + "|".join([*calendar.day_name, *calendar.day_abbr]) + ")"

_WEEKDAY = rf"(?:(?P<weekday>{_DAYS})(?P<after>,? ))?"
_GAP = r"(?P<gap>T|_|:|-| - |[,;]? {1,3}(?:at )?|,)"
_CLOCK = (
    r"(?P<hour>\d{1,2})(?:(?P<mark>[:.h])\d{2}(?P<seconds>(?P=mark)\d{2}(?:(?P<point>[.,])\d{1,9})?)?)?"
    r"(?P<half> ?[AaPp][Mm])?"
)
_COMPACT_CLOCK = r"(?P<compact>\d{4}(?:\d{2})?)"
_ZONE = r"(?P<zone> ?(?:Z|z|[A-Z]{3,4}|[+-]\d{2}:?\d{2}))?"
_TIME = rf"(?:{_GAP}(?:{_CLOCK}|{_COMPACT_CLOCK}){_ZONE})?"

_BETWEEN = r"(?:[/.-] ?| )"
_PARTS = rf"(?P<one>\d{{1,4}})(?P<sep>{_BETWEEN})(?P<two>\d{{1,2}})(?P=sep)(?P<three>\d{{1,4}})(?P<end>\.?)"
_NUMERIC = re.compile(_WEEKDAY + _PARTS + _TIME)
_EIGHT = re.compile(r"(?P<digits>\d{8})" + _TIME)
_MONTH_ONLY = re.compile(r"(?P<one>\d{1,4})(?P<sep>[/.-]|(?<=\d{4}):)(?P<two>\d{1,4})")
_JOINT = r"[ ./,-]{0,2}"
_NAMED = re.compile(
    rf"{_WEEKDAY}(?:(?P<d>\d{{1,2}}){_JOINT}(?P<b>{_MONTHS}){_JOINT}(?:(?P<Y>\d{{4}})|(?P<y>\d\d))"
    rf"|(?P<b2>{_MONTHS}){_JOINT}(?P<d2>\d{{1,2}})(?:,? ?|[/-])(?P<Y2>\d{{4}})"
    rf"|(?P<Y3>\d{{4}}){_JOINT}(?P<b3>{_MONTHS}){_JOINT}(?P<d3>\d{{1,2}}))" + _TIME
)
_BESIDE = r"(?: ?[-/.:,'] ?| )?"
_YEAR = r"(?:FY ?)?(?:(?P<Y>\d{4})|(?P<y>\d\d))"
_SHORT_YEAR = re.compile(rf"(?P<b>{_MONTHS})(?:[-/.] ?| '?|')(?P<y>\d\d)")
_ASIAN = re.compile(r"\d{4} ?[年년](?: ?\d{1,2} ?[月월](?: ?\d{1,2} ?[日일号])?)?" + _TIME)
_MONTH = r"m ?(?P<m>\d{1,2})"
_QUARTER = r"(?:[qt] ?)(?P<q>[1-4])|(?P<q2>[1-4])(?: ?[qt]|(?:\.|st|nd|rd|th)? (?:quarter|quartal))"
_WEEK = r"(?:w|kw|week|semaine|semana) ?(?P<V>\d{1,2})|s(?P<V2>\d\d)"
_PERIODS = [_SHORT_YEAR] + [
    re.compile(between.join(f"(?:{part})" for part in parts), re.IGNORECASE)
    for period, between, year in (
        (rf"(?P<b>{_MONTHS})", _JOINT, r"(?P<Y>\d{4})"),
        (_MONTH, _BESIDE, r"(?P<Y>\d{4})"),
        (_QUARTER, _BESIDE, _YEAR),
        (_WEEK, _BESIDE, r"(?P<G>\d{4})"),
    )
    for parts in ((year, period), (period, year))
]
_ORDERS = {"d": "day", "m": "month", "b": "month", "B": "month", "y": "year", "Y": "year"}


_LARGEST = {"d": 31, "m": 12}
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


def _without_accents(text: str) -> str:
    return unicodedata.normalize("NFKD", text.lower()).encode("ascii", "ignore").decode()


def _formats_of(text: str) -> tuple[str, ...]:
    if _ISO.fullmatch(text):
        if len(text) < len("2024-01-01"):
            return ISO, *_other_periods(text)
        match = _NUMERIC.fullmatch(text)
        return ISO, "%Y-%d-%m" + ("" if match is None else _time(match))
    for pattern, formats in (
        (_NUMERIC, _numeric),
        (_NAMED, _named),
        (_EIGHT, _eight),
        (_MONTH_ONLY, _month_only),
        (_ASIAN, _asian),
        *((period, lambda match: (_replaced(match),)) for period in _PERIODS),
    ):
        match = pattern.fullmatch(text)
        if match is not None:
            return formats(match)
    return ()


def order(time_format: str) -> tuple[str, ...]:
    """Order of day, month and year in a format."""
    if time_format == ISO:
        return "year", "month", "day"
    return tuple(_ORDERS[letter] for letter in re.findall(r"%([dmbByY])", time_format))


def _numeric(match: re.Match[str]) -> tuple[str, ...]:
    n_first, n_third = len(match["one"]), len(match["three"])
    sep, suffix = match["sep"], match["end"] + _time(match)
    if n_first == 4 and n_third <= 2:
        orders = ["Ymd", "Ydm"]
    elif n_first <= 2 and n_third == 4:
        orders = ["dmY", "mdY"]
    elif n_first <= 2 and n_third == 2:
        orders = ["dmy", "mdy", "ymd"]
    else:
        return ()
    numbers = [int(match[part]) for part in ("one", "two", "three")]
    if not any(
        all(1 <= number <= _LARGEST.get(letter, number) for letter, number in zip(letters, numbers, strict=True))
        for letters in orders
    ):
        return ()  # a time of day such as 18.00.00
    before = _weekday(match)
    return tuple(before + sep.join(f"%{letter}" for letter in letters) + suffix for letters in orders)


def _eight(match: re.Match[str]) -> tuple[str, ...]:
    """Formats of eight digits with a time of day; without one they may be any number."""
    if match["gap"] is None:
        return ()
    first, last = int(match["digits"][:4]), int(match["digits"][4:])
    dates = ["%Y%m%d", "%Y%d%m"] * (first in USUAL_YEARS) + ["%d%m%Y", "%m%d%Y"] * (last in USUAL_YEARS)
    return tuple(date + _time(match) for date in dates)


def _named(match: re.Match[str]) -> tuple[str, ...]:
    before, end = _weekday(match), match.start("gap")
    date = _replaced(match, match.end("after") if before else 0, end if end >= 0 else None)
    swapped = [date.translate(str.maketrans("dy", "yd"))] if "%y" in date else []
    return tuple(before + each + _time(match) for each in (date, *swapped))


def _month_only(match: re.Match[str]) -> tuple[str, ...]:
    lengths, one, two = (len(match["one"]), len(match["two"])), int(match["one"]), int(match["two"])
    if lengths == (4, 4):
        return (f"%Y{match['sep']}%y",) if two == one + 1 else ()
    if lengths[0] == 4 and lengths[1] <= 2:
        return f"%Y{match['sep']}%m", *_other_periods(match[0])
    return (f"%m{match['sep']}%Y", *_other_periods(match[0])) if lengths[0] <= 2 and lengths[1] == 4 else ()


def _asian(match: re.Match[str]) -> tuple[str, ...]:
    date = match[0][: match.start("gap") if match["gap"] else None]
    for directive in ("%Y", "%m", "%d"):
        date = re.sub(r"(?<![%\d])\d+", directive, date, count=1)
    return (date + _time(match),)


def _other_periods(text: str) -> tuple[str, ...]:
    """Formats of a year and a number, such as 1990-1, that may be a quarter, the next year or an ISO week instead of a
    month."""
    quarter = re.sub(r"(?<!\d)(0?)[1-4](?!\d)", rf"\1{QUARTER}", re.sub(r"\d{4}", "%Y", text))
    week = re.sub(r"(?<!\d)\d{1,2}(?!\d)", WEEK, re.sub(r"\d{4}", "%G", text))
    year = re.fullmatch(r"(\d{4})([/.-])(\d\d)", text)
    season = [f"%Y{year[2]}%y"] if year and is_season(year[1], year[3]) else []
    return (*([quarter] if QUARTER in quarter else []), *season, week)


def is_season(first: str, last: str) -> bool:
    """Whether two years follow each other, such as 2004 and 05, or 2004 and 2005."""
    return str(int(first) + 1).endswith(last) and len(last) > 1


def _replaced(match: re.Match[str], begin: int = 0, end: int | None = None) -> str:
    """The text from `begin` to `end` with directives in place of the groups that are named after them.

    Ordinal numbers of quarters (1st to 4th) are written as %qst.
    """
    text = match[0][:end]
    groups = [(*match.span(name), name) for name, part in match.groupdict().items() if part and len(name) <= 2]
    for start, stop, name in sorted(groups, reverse=True):
        is_long = name[0] == "b" and re.fullmatch(_LONG_NAMES, match[name], re.IGNORECASE)
        directive = "%B" if is_long and match[name].lower() != "may" else f"%{name[0]}"
        text = text[:start] + directive + text[stop:]
    return re.sub("%q(nd|rd|th)", "%qst", text[begin:])


def _weekday(match: re.Match[str]) -> str:
    if match["weekday"] is None:
        return ""
    return ("%A" if match["weekday"].title() in calendar.day_name else "%a") + match["after"]


def _time(match: re.Match[str]) -> str:
    """The format of the time of day and zone after the date."""
    if match["gap"] is None:
        return ""
    zone = match["zone"] or ""  # a Z is kept as written, and means UTC
    if len(name := zone.strip()) > 1:
        zone = zone.replace(name, "%Z" if name.isalpha() else "%z")
    return match["gap"] + _clock(match) + zone


def _clock(match: re.Match[str]) -> str:
    if match["compact"] is not None:
        return "%H%M%S" if len(match["compact"]) == 6 else "%H%M"
    half, mark = match["half"], match["mark"]
    hour, half = ("%I", half[:-2] + "%p") if half else ("%H", "")
    minutes = f"{mark}%M" if mark else ""
    seconds = f"{mark}%S" if match["seconds"] else ""
    fraction = f"{match['point']}%f" if match["point"] else ""
    return f"{hour}{minutes}{seconds}{fraction}{half}"
