"""Makes the files that are generated from the models: `python -m tests.generate`.

A test holds the committed files to what is made here.
"""

from __future__ import annotations

from tests.generate import crds, reference


def files() -> dict[str, str]:
    """The text of every generated file, by its path in the repository."""
    made = {f"manifests/crds/{name}": text for name, text in crds.documents().items()}
    return made | {"docs/api.md": reference.document()}
