"""Are our four packages really ours, and what is torch built for? A folder or another package can shadow plain names.

Asked by doctor, by a run before it starts and by each worker; imports nothing of ours.
"""

import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

DISTRIBUTION = "asd-sweep"
PACKAGES = ("sweeper", "dashboards", "storage", "studies")


def package_origins(names: Sequence[str] = PACKAGES) -> dict[str, Path | None]:
    """The folder that each package lies in, as an import would find it; None when it is no regular package."""
    origins: dict[str, Path | None] = {}
    for name in names:
        spec = importlib.util.find_spec(name)
        found = spec is not None and spec.origin is not None
        origins[name] = Path(str(spec.origin)).resolve().parent.parent if spec is not None and found else None
    return origins


def origin_problems(origins: Mapping[str, Path | None], home: Path) -> list[str]:
    """One sentence for each package that does not lie in ``home``, where the program that asks was loaded from."""
    problems = []
    for name, origin in origins.items():
        if origin is None:
            problems.append(f"the package {name} was not found beside the others in {home}; run make setup")
        elif origin != home:
            problems.append(
                f"the package {name} comes from {origin}, the program from {home}; "
                f"run from another folder, or rename or uninstall that {name}"
            )
    return problems


def distribution_problems(providers: Mapping[str, Sequence[str]], names: Sequence[str] = PACKAGES) -> list[str]:
    """One sentence for each package that another distribution provides too, or that ours does not.

    providers: package name to the distributions that contain it (importlib.metadata.packages_distributions).
    """
    problems = []
    for name in names:
        others = sorted(set(providers.get(name, ())) - {DISTRIBUTION})
        if others:
            problems.append(
                f"the package {name} is also installed by {', '.join(others)}; uninstall it, then run make setup again"
            )
        elif name not in providers:
            problems.append(f"the package {name} is not installed by {DISTRIBUTION}; run make setup")
    return problems


def package_problems() -> list[str]:
    """All reasons why an import of one of our names could give something else; empty when all is well."""
    home = Path(__file__).resolve().parent.parent
    return origin_problems(package_origins(), home) + distribution_problems(_providers())


@cache
def _providers() -> Mapping[str, Sequence[str]]:
    """Looking through a large environment takes a second, and what is installed does not change under a process."""
    return importlib.metadata.packages_distributions()


def built_for_cpu() -> bool:
    """Whether the installed torch, and so vLLM, is the build without accelerators; read from metadata, not imported."""
    try:
        return importlib.metadata.version("torch").endswith("+cpu")
    except importlib.metadata.PackageNotFoundError:
        return False
