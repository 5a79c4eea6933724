"""Variables that a sandboxed command may set for a program outside: name, and form of the value.

They say how something is to look, in which language, time zone and detail, who has made a commit
when; nothing in them names a file, a program, a server or an account. Pure.
"""

import re

_SWITCH = "|[0-3]|true|false|yes|no|on|off"
_NUMBER = "[0-9]{0,10}"
_WORD = r"[\w.+-]*"
_CAT = "|(?:/usr)?(?:/bin/)?cat"
_NOBODY = "|:|(?:(?:/usr)?/bin/)?true|false"  # edits, and answers
# No function, which old shells import under any name.
_LINE = r"(?!\(\) *\{)[^\x00-\x1f\x7f]*"
# tzset(3), a rule or a name in the data base: no file elsewhere.
_TIME_ZONE = r"(?!.*\.\.)[\w<+-][\w<>+,./:-]*|"

# Parted by blanks; what ends with `*` stands for all names that begin so.
_FORMS = (
    ("LANG LANGUAGE LC_*", r"[\w.@:+-]*"),
    ("TZ", _TIME_ZONE),
    ("TERM COLORTERM LESSCHARSET CARGO_TERM_COLOR", _WORD),
    ("COLUMNS LINES SHLVL MAKELEVEL SOURCE_DATE_EPOCH", _NUMBER),
    ("NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR SYSTEMD_COLORS", _SWITCH),
    ("CI DEBUG VERBOSE PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONUTF8", _SWITCH),
    ("RUST_BACKTRACE", f"{_SWITCH}|full"),
    ("RUST_LOG", r"[\w=,:-]*"),
    ("NODE_ENV", "|production|development|test"),
    ("DEBIAN_FRONTEND", "|noninteractive|teletype"),
    ("GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT GIT_LITERAL_PATHSPECS", _SWITCH),
    ("GIT_TRACE GIT_TRACE_SETUP GIT_TRACE_PERFORMANCE", "|[0-2]|true|false"),
    ("GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE", _LINE),
    ("GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE", _LINE),
    ("PAGER GIT_PAGER MANPAGER GH_PAGER SYSTEMD_PAGER AWS_PAGER BAT_PAGER DELTA_PAGER", _CAT),
    ("EDITOR VISUAL GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_ASKPASS GH_EDITOR", _NOBODY),
    ("LESS", "-?[FRSX]*"),
)
_BY_NAME = {
    name: re.compile(form, re.ASCII | re.DOTALL) for names, form in _FORMS for name in names.split()
}
_BEGINNINGS = tuple((name[:-1], form) for name, form in _BY_NAME.items() if name.endswith("*"))


def harmless(name: str, value: str) -> bool:
    """Whether anyone may set the variable to this value."""
    form = _form(name)
    return form is not None and form.fullmatch(value) is not None


def may_be_unset(name: str) -> bool:
    """Whether anyone may remove it."""
    return _form(name) is not None


def _form(name: str) -> re.Pattern[str] | None:
    form = _BY_NAME.get(name)
    if form is not None:
        return form
    return next((form for beginning, form in _BEGINNINGS if name.startswith(beginning)), None)
