"""docs/architecture.md matches the tree."""

from tests.source_tree import PACKAGE, ROOT, rooms_page


def test_page_names_every_file_and_no_other() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / PACKAGE).rglob("*.py")}
    rooms = {name for name in files if name.count("/") > 1 and name.endswith("/__init__.py")}
    assert set(rooms_page()) == files - rooms


def test_init_files_of_the_rooms_are_empty() -> None:
    for path in (ROOT / PACKAGE).glob("*/__init__.py"):
        assert path.read_bytes() == b"", path


def test_no_file_is_longer_than_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in (PACKAGE, "packaging")
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def test_page_describes_every_file() -> None:
    assert [path for path, text in rooms_page().items() if len(text) < 10] == []
