"""Our own reading of the two kinds of patch that an export writes; a stand-in for kustomize, which is not here.

A strategic merge patch matches list entries by their merge key as Kubernetes declares them; a JSON patch (RFC 6902) is
read as far as ``test`` and ``add``.
"""

import copy
from typing import Any

MERGE_KEYS = {"containers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}


def merge(base: Any, patch: Any, *, key: str = "") -> Any:
    """``base`` with a strategic merge patch applied."""
    if isinstance(base, dict) and isinstance(patch, dict):
        merged = dict(base)
        for name, value in patch.items():
            merged[name] = merge(base[name], value, key=name) if name in base else copy.deepcopy(value)
        return merged
    if isinstance(base, list) and isinstance(patch, list) and key in MERGE_KEYS:
        by = MERGE_KEYS[key]
        patches = {entry[by]: entry for entry in patch}
        merged_list = [merge(entry, patches.pop(entry[by], {})) for entry in base]
        return [*merged_list, *copy.deepcopy(list(patches.values()))]
    return copy.deepcopy(patch)


def json_patch(base: Any, operations: list[dict[str, Any]]) -> Any:
    """``base`` with a JSON patch applied. Raises ValueError when a test fails, KeyError for a place that is missing."""
    result = copy.deepcopy(base)
    for operation in operations:
        *parents, last = operation["path"].removeprefix("/").split("/")
        place = result
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if operation["op"] == "test":
            found = place[int(last)] if isinstance(place, list) else place[last]
            if found != operation["value"]:
                raise ValueError(f"{operation['path']} is {found!r}, not {operation['value']!r}")
        elif operation["op"] == "add" and isinstance(place, list) and last == "-":
            place.append(operation["value"])
        else:
            raise NotImplementedError(operation)
    return result
