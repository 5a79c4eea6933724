"""First module of the executable: name the folder of dependencies, then run the role.

Runs before the role is known, at every exec a patched shell makes: it imports only what the
interpreter has frozen in, starts no thread and leaves argv and the environment as found.
"""

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType
    from zipimport import zipimporter

    __loader__: zipimporter

NOT_STARTED = 125  # as of codex-linux-sandbox, which must not seem to be its command's
INDEX = "modules"
STAMP_SIZE = 16  # bytes


class Modules:
    """Finds and loads our modules, whose code lies in the archive before its members.

    zipimport takes 0.04 ms more for each that is loaded, and some 5 us for every member of the
    archive at each start. Each code begins with the stamp of the build: an archive that was
    replaced meanwhile has other code in that place.
    """

    def __init__(self, archive: str, index: bytes) -> None:
        self._archive = archive
        self._places: dict[str, tuple[str, int, int]]
        self._stamp, self._places = marshal.loads(index)

    def find_spec(self, name: str, *_: object) -> "ModuleSpec | None":
        """The spec of one of our modules; None for every other."""
        if name not in self._places:
            return None
        file = self._places[name][0]
        # sys's own, as importlib.machinery is not loaded
        spec = type(sys.__spec__)(
            name,
            self,  # type: ignore[arg-type]  # importlib asks for no more than there is
            origin=f"{self._archive}/{file}",
            is_package=file.endswith("/__init__.pyc"),
        )
        spec.has_location = True
        return spec

    def create_module(self, _: object) -> None:
        """None: a module like others is to be made."""

    def exec_module(self, module: "ModuleType") -> None:
        """Run a module's code. Raises ImportError if it is there no more."""
        exec(self.get_code(module.__name__), module.__dict__)

    def get_code(self, name: str) -> "CodeType":
        """A module's code. Raises ImportError if it is there no more."""
        _, offset, size = self._places[name]
        descriptor = os.open(self._archive, os.O_RDONLY | os.O_CLOEXEC)
        try:
            found = os.pread(descriptor, size, offset)
        finally:
            os.close(descriptor)
        if len(found) != size or not found.startswith(self._stamp):
            raise ImportError(f"{self._archive} was replaced since this process started", name=name)
        code: CodeType = marshal.loads(memoryview(found)[STAMP_SIZE:])
        return code


def undo_locale_coercion() -> None:
    """Give LC_CTYPE back the value the process was started with.

    Under the C locale CPython sets LC_CTYPE itself (PEP 538), and isolated mode cannot tell it
    not to. The initial environment is still in /proc/self/environ (proc_pid_environ(5)).
    """
    if os.environ.get("LC_CTYPE") not in ("C.UTF-8", "C.utf8", "UTF-8"):
        return
    try:
        with open("/proc/self/environ", "rb") as file:
            initial = file.read().split(b"\0")
    except OSError:
        return
    values = [entry[9:] for entry in initial if entry.startswith(b"LC_CTYPE=")]
    if values:
        os.environb[b"LC_CTYPE"] = values[0]
    else:
        del os.environ["LC_CTYPE"]


def unloadable(library: str, error: ImportError) -> str | None:
    """What to say of an import that failed for want of the folder of dependencies."""
    if os.path.isdir(library) or (error.name or "").startswith("codex_multitool"):
        return None
    return (
        f"{sys.argv[0]}: {library} is missing, where its libraries are ({error}): "
        "copy the whole folder that it was built in, or link to it"
    )


def main() -> None:
    """Run the role that argv[0] names and exit with its status."""
    archive = os.path.realpath(sys.argv[0])
    library = f"{archive}.lib"
    sys.path.append(library)
    sys.meta_path.insert(0, Modules(archive, __loader__.get_data(INDEX)))
    undo_locale_coercion()
    try:
        from codex_multitool import roles

        status = roles.main(sys.argv)
    except ImportError as error:
        told = unloadable(library, error)
        if told is None:
            raise
        print(told, file=sys.stderr)
        status = NOT_STARTED
    sys.exit(status)
