"""Rules files (Starlark) to one policy: all of every file, or an error that says where.

The files are evaluated each by itself, in the given order, by engine_process; this module
turns their calls into rules and holds every rule to its own examples.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from codex_multitool.execpolicy import arguments, network_host, reach
from codex_multitool.execpolicy.engine_process import Engine, evaluate_all
from codex_multitool.execpolicy.evaluate import matches
from codex_multitool.execpolicy.evaluation import Call, Failure
from codex_multitool.execpolicy.mistake import Mistake
from codex_multitool.execpolicy.rules import (
    Decision,
    Location,
    NetworkRule,
    Policy,
    PrefixRule,
    RulesError,
)

EVALUATION_SECONDS = 10.0

# Relative programs in examples lie here, so that a file means the same wherever it is read.
_EXAMPLES_CWD = "/"

_MEND_EXAMPLES = "correct the pattern or the example; an example is tested by its own rule only"

# How to mend what the engine refused, by a mark in its message; the first that fits.
_MENDS = (
    ("`load` is not allowed", "write the rules into this file; other files can't be loaded"),
    ("tabs are not allowed", "indent with spaces"),
    ("invalid input `\ufeff`", "save the file without a byte order mark"),
    ("Parse error", "check quotes, brackets, commas and indentation here"),
    ("nested too deeply", "split the deepest expression over several statements"),
    ("takes longer than", "state the rules without long loops"),
    ("memory", "state the rules without building large values"),
    ("makes more than", "state fewer rules"),
    ("parameter", "the builtins take: {signatures}"),
    ("positional argument", "the builtins take: {signatures}"),
    ("Variable `", "write words in quotes; the builtins are: {signatures}"),
)
MOST_WARNINGS = 20
_MOST_TOKENS = 3
_LIKELY = ('","', '")"', '"]"', '":"', '"="', '"}"', r'"\n"')
_MEND_OTHER = "correct this statement"
_SIGNATURES = (
    "prefix_rule(pattern, decision, match, not_match, justification)",
    "network_rule(host, protocol, decision, justification)",
    "host_executable(name, paths)",
)


class Source(NamedTuple):
    """The text of one rules file, and the path to name in errors."""

    path: str
    text: str


def parse(
    sources: Iterable[Source],
    *,
    seconds: float = EVALUATION_SECONDS,
    examples: bool = True,
    engine: Engine | None = None,
) -> Policy:
    """The policy of all sources together; raises RulesError for the first that is wrong.

    seconds: the time all evaluations may take together. examples: whether they must hold, too.
    engine: one that was begun for this.
    """
    sources = tuple(sources)
    for source in sources:
        _require_unicode(source)
    evaluations = evaluate_all([source.text for source in sources], seconds=seconds, engine=engine)
    builder = _Builder()
    for source, evaluation in zip(sources, evaluations, strict=False):
        lines = source.text.split("\n")
        for call in evaluation.calls:
            column = max(lines[call.line - 1].find(call.name), 0) + 1
            builder.add(call, Location(source.path, call.line, column))
        if evaluation.failure is not None:
            raise _failure(source, lines, evaluation.failure)
        if examples:
            builder.check_examples()
    return builder.policy()


class _Examples(NamedTuple):
    """The examples of one prefix_rule call and the rules that it made."""

    location: Location
    rules: tuple[PrefixRule, ...]
    match: tuple[tuple[str, ...], ...]
    not_match: tuple[tuple[str, ...], ...]


class _Builder:
    """The rules so far."""

    def __init__(self) -> None:
        self.rules: dict[str, list[PrefixRule]] = {}
        self.host_executables: dict[str, tuple[str, ...]] = {}
        self.network_rules: list[NetworkRule] = []
        self.unchecked: list[_Examples] = []
        self.warnings: list[str] = []

    def add(self, call: Call, location: Location) -> None:
        """Take up what one call of a builtin states."""
        try:
            match call.name:
                case "prefix_rule":
                    self._add_prefix_rule(call, location)
                case "network_rule":
                    self.network_rules.append(_network_rule(call, location))
                case _:
                    self._add_host_executable(call)
        except Mistake as mistake:
            raise RulesError(location, mistake.what, mistake.mend) from None

    def _add_prefix_rule(self, call: Call, location: Location) -> None:
        given = call.arguments
        elements = arguments.items(given, "pattern")
        word = arguments.optional_text(given, "decision")
        match = arguments.optional_items(given, "match")
        not_match = arguments.optional_items(given, "not_match")
        reason = arguments.optional_text(given, "justification")

        decision = arguments.prefix_decision(word)
        justification = arguments.justification(reason)
        pattern = arguments.pattern(elements)
        first, *rest = pattern
        rules = tuple(
            PrefixRule(((token,), *rest), decision, justification, location) for token in first
        )
        examples = _Examples(
            location, rules, arguments.examples(match), arguments.examples(not_match)
        )
        self._doubt(pattern, examples, decision)
        if examples.match or examples.not_match:
            self.unchecked.append(examples)
        _file_under_first_token(self.rules, rules)

    def _doubt(
        self, pattern: tuple[tuple[str, ...], ...], examples: _Examples, decision: Decision
    ) -> None:
        """A rule that restricts and covers nothing is a mistake: it protects from nothing."""
        for doubt in reach.doubts(pattern, examples.match):
            if doubt.never and decision is not Decision.ALLOW:
                raise Mistake(f"invalid rule: {doubt.what}", doubt.mend)
            self.warnings.append(f"{examples.location}: {doubt.what}; {doubt.mend}")

    def _add_host_executable(self, call: Call) -> None:
        name = arguments.text(call.arguments, "name")
        paths = arguments.items(call.arguments, "paths")
        name = arguments.executable_name(name)
        self.host_executables[name] = arguments.executable_paths(name, paths)

    def check_examples(self) -> None:
        """Hold the rules of the file just read to their examples.

        At its end, because a host_executable may follow the rule whose examples need it.
        """
        for examples in self.unchecked:
            own: dict[str, list[PrefixRule]] = {}
            _file_under_first_token(own, examples.rules)
            _check(examples, Policy(_closed(own), self.host_executables))
        self.unchecked.clear()

    def policy(self) -> Policy:
        """Everything stated, closed to changes."""
        return Policy(
            _closed(self.rules),
            MappingProxyType(self.host_executables),
            tuple(self.network_rules),
            _bounded([*_without_effect(self.network_rules), *self.warnings]),
        )


def _without_effect(network: Sequence[NetworkRule]) -> Iterator[str]:
    """One word for each file: the rules of a file are all without effect, or none."""
    found: dict[str, list[Location]] = {}
    for rule in network:
        if rule.location is not None:
            found.setdefault(rule.location.path, []).append(rule.location)
    for first, *more in found.values():
        others = f", nor have the others of this file ({len(more)})" if more else ""
        yield (
            f"{first}: network_rule has no effect here{others}: the sandbox has the whole network "
            "or none"
        )


def _bounded(warnings: Sequence[str]) -> tuple[str, ...]:
    more = len(warnings) - MOST_WARNINGS
    return (*warnings[:MOST_WARNINGS], *([f"{more} more warnings of rules"] if more > 0 else []))


def _network_rule(call: Call, location: Location) -> NetworkRule:
    given = call.arguments
    host = arguments.text(given, "host")
    protocol = arguments.text(given, "protocol")
    word = arguments.text(given, "decision")
    reason = arguments.optional_text(given, "justification")

    protocol = arguments.protocol(protocol)
    decision = arguments.network_decision(word)
    justification = arguments.justification(reason)
    return NetworkRule(network_host.normalise(host), protocol, decision, justification, location)


def _check(examples: _Examples, policy: Policy) -> None:
    for example in examples.not_match:
        found = matches(policy, example, resolve_host_executables=True, cwd=_EXAMPLES_CWD)
        if found:
            raise RulesError(
                examples.location,
                f"expected example to not match rule `{found[0].rule}`: {shlex.join(example)}",
                _MEND_EXAMPLES,
            )
    unmatched = [
        shlex.join(example)
        for example in examples.match
        if not matches(policy, example, resolve_host_executables=True, cwd=_EXAMPLES_CWD)
    ]
    if unmatched:
        rules = _listed(map(str, examples.rules))
        raise RulesError(
            examples.location,
            "expected every example to match at least one rule. "
            f"rules: {rules}; unmatched examples: {_listed(unmatched)}",
            _MEND_EXAMPLES,
        )


def _listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(f'`{text}`' for text in texts)}]"


def _file_under_first_token(
    rules: dict[str, list[PrefixRule]], added: Iterable[PrefixRule]
) -> None:
    for rule in added:
        rules.setdefault(rule.pattern[0][0], []).append(rule)


def _closed(rules: Mapping[str, list[PrefixRule]]) -> Mapping[str, tuple[PrefixRule, ...]]:
    return MappingProxyType({token: tuple(listed) for token, listed in rules.items()})


def _shortened(message: str) -> str:
    """The engine's message; of many words that it would take, those that are likely meant."""
    said, mark, rest = message.partition("expected one of ")
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"', rest)
    if len(tokens) <= _MOST_TOKENS:
        return message
    likely = [token for token in _LIKELY if token in tokens][:_MOST_TOKENS]
    kept = likely or tokens[:_MOST_TOKENS]
    return f"{said}{mark}{', '.join(kept)} or {len(tokens) - len(kept)} others"


def _failure(source: Source, lines: list[str], failure: Failure) -> RulesError:
    mend = next((mend for mark, mend in _MENDS if mark in failure.message), _MEND_OTHER)
    named = [each for each in _SIGNATURES if each.partition("(")[0] in failure.message]
    mend = mend.format(signatures=", ".join(named or _SIGNATURES))
    what = f"starlark error: {_shortened(failure.message)}"
    if failure.line is None:
        return RulesError(None, what, mend, path=source.path)
    stated = lines[failure.line - 1]
    column = failure.column or len(stated) - len(stated.lstrip()) + 1
    return RulesError(Location(source.path, failure.line, column), what, mend)


def _require_unicode(source: Source) -> None:
    """Refuse lone surrogates: the engine takes UTF-8 only."""
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        before = source.text[: error.start]
        line = before.count("\n") + 1
        location = Location(source.path, line, error.start - (before.rfind("\n") + 1) + 1)
        raise RulesError(location, "not UTF-8 text", "save the file as UTF-8") from None
