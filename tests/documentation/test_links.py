"""Links of the documentation lead somewhere, its pages are on the map, options exist."""

from __future__ import annotations

import re

import pytest

from tests.documentation.pages import NAMES, ROOT, without_blocks

LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
MAP = "docs/README.md"


def anchors(name: str) -> set[str]:
    """What GitHub makes of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(name), re.MULTILINE)
    found: list[str] = []
    for heading in headings:
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower())
        slug = plain.replace(" ", "-")
        again = sum(1 for it in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", it))
        found.append(f"{slug}-{again}" if again else slug)
    return set(found)


def targets(name: str) -> list[tuple[str, str]]:
    """The pages and anchors to which a page links."""
    found = []
    for link in LINK.findall(without_blocks(name)):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        page = ((ROOT / name).parent / path).resolve() if path else ROOT / name
        found.append((str(page.relative_to(ROOT)), anchor))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    for page, anchor in targets(name):
        assert (ROOT / page).exists(), f"{name} links to {page}"
        if anchor:
            assert anchor in anchors(page), f"{name} links to {page}#{anchor}"


def test_every_page_is_on_the_map() -> None:
    pages = {name for name in NAMES if name.startswith("docs/")} - {MAP}
    assert pages <= {page for page, _ in targets(MAP)}


def test_the_readme_leads_to_the_map() -> None:
    assert MAP in {page for page, _ in targets("README.md")}


def options(prose: str) -> list[str]:
    """The options in what the prose shows as code: alone, or behind one of our programs."""
    found = []
    for span in re.findall(r"`([^`\n]+)`", prose):
        words = span.partition(" -- ")[0].split()
        if words[:1] and (words[0].startswith("--") or words[0].startswith("codex-")):
            found += [word.partition("=")[0] for word in words if re.match(r"--[a-z]", word)]
    return found


def test_options_that_pages_name_are_options() -> None:
    known = set(options(without_blocks("docs/reference/commands.md")))
    # Of other programs.
    known |= {"--security-opt", "--cap-drop", "--privileged", "--user", "--read-only"}
    for name in NAMES:
        if name.startswith("docs/") or name == "README.md":
            for option in options(without_blocks(name)):
                assert option in known or option == "--help", f"{name}: {option}"


def test_an_option_that_is_none_is_found() -> None:
    prose = "Say `codex-linux-sandbox --accept X -- cmd --its-own`, or `--frobnicate`; `git --x`."
    assert options(prose) == ["--accept", "--frobnicate"]
