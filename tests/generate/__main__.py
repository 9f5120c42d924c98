"""Write every generated file into the checkout."""

from __future__ import annotations

from pathlib import Path

from tests.generate import crds

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Write them all; those that did not change stay as they are."""
    for name, text in crds.documents().items():
        (ROOT / "manifests" / "crds" / name).write_text(text)


if __name__ == "__main__":
    main()
