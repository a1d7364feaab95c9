"""``python -m bench [NAME…]``: run the benchmarks and print one table each.

One name may be followed by options of its own: ``python -m bench cluster --nodes 500``.

Every benchmark is a module of this folder with ``main() -> None``. A benchmark compares in one run and
prints ratios; none of them asserts.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench


def names() -> list[str]:
    """All benchmarks, by name."""
    return sorted(
        module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_")
    )


def main(arguments: list[str]) -> int:
    options = next((at for at, text in enumerate(arguments) if text.startswith("-")), len(arguments))
    wanted, rest = arguments[:options], arguments[options:]
    unknown = [name for name in wanted if name not in names()]
    if unknown or (rest and len(wanted) != 1):
        what = f"no benchmark {', '.join(unknown)}" if unknown else "options need exactly one name"
        print(f"{what}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    for name in wanted or names():
        print(f"\n## {name}\n")
        benchmark = importlib.import_module(f"bench.{name}")
        if rest:
            benchmark.main(rest)
        else:
            benchmark.main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
