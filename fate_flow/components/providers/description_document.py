"""The description of a component of ours in the form of FATE 2 (`component desc`)."""

from __future__ import annotations

from fate_flow.components.providers.description import ComponentInfo
from fate_flow.core.model.artifact import DATA, DEFAULT_STAGE, METRIC, ArtifactInfo, ArtifactInfos


def description_document(info: ComponentInfo) -> dict[str, object]:
    """Return what a provider of FATE 2 would write: `{component: {name, roles, parameters, ...}}`."""
    roles = sorted(info.roles)
    return {
        "component": {
            "name": info.name,
            "module": info.module,
            "description": info.description,
            "roles": roles,
            "parameters": {
                key: {"description": one.expected, "optional": not one.required}
                for key, one in info.parameters.items()
            },
            "input_artifacts": {DATA: {}, **_by_section(info.inputs, info)},
            "output_artifacts": {
                DATA: {}, **_by_section({**info.outputs, "metric": ArtifactInfo("metric", (METRIC,))}, info),
            },
        },
    }


def _by_section(infos: ArtifactInfos, info: ComponentInfo) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for key, one in infos.items():
        found.setdefault(one.section, {})[key] = {
            "types": list(one.kinds),
            "roles": sorted(one.roles or info.roles),
            "stages": sorted(one.stages or info.stages or {DEFAULT_STAGE}),
            **({"optional": True} if one.is_optional else {}),
            **({"is_multi": True} if one.is_multi else {}),
        }
    return found
