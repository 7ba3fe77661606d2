"""What hatchling does beside pyproject.toml: a README with absolute links, and a bill of materials in the wheel."""

import hashlib
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")
"""A Markdown link to a file in the repository: "!" for a picture, its text, its target."""


class AbsoluteReadme(MetadataHookInterface):
    """The README as the project's description; its links lead to the repository at this version."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source, tag = metadata["urls"]["Source"], f"v{metadata['version']}"
        text = LINK.sub(
            lambda link: f"{link[1]}[{link[2]}]({source}/{'raw' if link[1] else 'blob'}/{tag}/{link[3]})", text
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class BillOfMaterials(BuildHookInterface):  # type: ignore[type-arg]
    """A CycloneDX file in `.dist-info/sboms` (PEP 770): the bundled models with checksums, and the dependencies."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.folder = TemporaryDirectory()
        path = Path(self.folder.name, "regard.cdx.json")
        path.write_text(json.dumps(self.bill(), indent=2) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()

    def bill(self) -> dict[str, Any]:
        core = self.metadata.core
        root = {**component("library", core.name, core.license_expression), "version": self.metadata.version}
        root["purl"] = root["bom-ref"] = f"pkg:pypi/{core.name}@{self.metadata.version}"
        weights = sorted(Path(self.root, "src/regard/bundled").glob("*/checkpoints/*/model.safetensors"))
        models = [component("machine-learning-model", path.parts[-4], core.license_expression) for path in weights]
        for model, path in zip(models, weights, strict=True):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            model |= {"bom-ref": f"model/{path.parts[-4]}", "hashes": [{"alg": "SHA-256", "content": digest}]}
        packages = dependencies(core.dependencies, "required")
        for extra, lines in core.optional_dependencies.items():
            if extra != "dev":
                packages = dependencies(lines, "optional") | packages
        packages.pop(core.name, None)
        parts = [*models, *(packages[name] for name in sorted(packages))]
        return {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": root},
            "components": parts,
            "dependencies": [{"ref": root["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}],
        }


def component(kind: str, name: str, licence: str) -> dict[str, Any]:
    return {"type": kind, "name": name, "licenses": [{"expression": licence}]}


def dependencies(lines: list[str], scope: str) -> dict[str, dict[str, Any]]:
    """Components for requirements such as "torch>=2.11", by name. They are declared, not part of the wheel."""
    names = [re.split(r"[<>=!~\[; ]", line)[0] for line in lines]
    purls = {name: f"pkg:pypi/{name}" for name in names}
    return {
        name: {"type": "library", "name": name, "scope": scope, "bom-ref": purl, "purl": purl}
        for name, purl in purls.items()
    }
