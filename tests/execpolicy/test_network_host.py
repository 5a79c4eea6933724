"""The one form of a network rule's host."""

import pytest

from codex_multitool.execpolicy.mistake import Mistake
from codex_multitool.execpolicy.network_host import normalise


@pytest.mark.parametrize(
    ("raw", "host"),
    [
        ("example.org", "example.org"),
        (" Example.ORG. ", "example.org"),
        ("example.org..", "example.org"),
        ("example.org:443", "example.org"),
        ("example.org.:443", "example.org"),
        ("192.0.2.1:80", "192.0.2.1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("example.org:https", "example.org:https"),
    ],
)
def test_normalises(raw: str, host: str) -> None:
    assert normalise(raw) == host


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        ("", "cannot be empty"),
        (" . ", "cannot be empty"),
        ("[]:1", "cannot be empty"),
        ("http://example.org", "must be a hostname or IP literal (without scheme or path)"),
        ("example.org/x", "must be a hostname or IP literal (without scheme or path)"),
        ("[::1", "has an invalid bracketed IPv6 literal"),
        (" [::1]x", "contains an unsupported suffix:  [::1]x"),
        ("[::1]:\u0661", "contains an unsupported suffix: [::1]:\u0661"),
        ("*.example.org", "must be a specific host; wildcards are not allowed"),
        ("a b", "cannot contain whitespace"),
    ],
)
def test_refuses(raw: str, what: str) -> None:
    with pytest.raises(Mistake) as caught:
        normalise(raw)
    assert caught.value.what == f"invalid rule: network_rule host {what}"
    assert 'host="example.org"' in caught.value.mend
