"""The file system rights as the `landlock` package names and numbers them: ABI 1 to 5."""

from landlock.plumbing import FSAccess

FS = {str(right.name): int(right) for right in FSAccess}
