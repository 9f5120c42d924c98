"""Write every generated file into the checkout."""

from __future__ import annotations

from pathlib import Path

from tests.generate import files

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Write them all."""
    for path, text in files().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
