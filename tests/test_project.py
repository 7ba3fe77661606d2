"""The files around the package agree: version, citation, changelog, issue forms and the workflow."""

import os
import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tests.pages import ROOT, check_names, read
from tests.test_wheel import torch_versions

import regard

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@cache
def project() -> dict[str, Any]:
    values: dict[str, Any] = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    return values


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(read(path))


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    titles = re.findall(r"^## (.*)$", read(ROOT / "CHANGELOG.md"), re.MULTILINE)
    assert titles[0] == "Unreleased"
    version, day = titles[1].split(", ")
    citation = read_yaml(ROOT / "CITATION.cff")
    assert version == regard.__version__ == project()["version"] == str(citation["version"])
    assert date.fromisoformat(day) == citation["date-released"]


def test_the_citation_file_is_valid() -> None:
    """The rules of the Citation File Format 1.2.0 for the fields that we use."""
    citation = read_yaml(ROOT / "CITATION.cff")
    required = {"cff-version", "message", "title", "authors"}
    optional = {"type", "version", "date-released", "license", "repository-code", "keywords", "abstract", "url", "doi"}
    assert required <= set(citation) <= required | optional
    assert citation["cff-version"] == "1.2.0" and citation["type"] in ("software", "dataset")
    assert citation["authors"] and all(set(author) <= {"name", "website", "email"} for author in citation["authors"])
    assert [author["name"] for author in citation["authors"]] == [author["name"] for author in project()["authors"]]
    assert citation["license"] == project()["license"] and citation["repository-code"] == project()["urls"]["Source"]
    assert citation["keywords"] == project()["keywords"] and citation["title"].lower().endswith(
        project()["description"].lower()
    )


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.stem)
def test_issue_forms_are_valid(path: Path) -> None:
    form = read_yaml(path)
    assert {"name", "description", "body"} <= set(form) <= {"name", "description", "body", "labels", "title"}
    names = [field["id"] for field in form["body"]]
    assert names and len(set(names)) == len(names)
    for field in form["body"]:
        assert field["type"] in ("textarea", "input", "dropdown", "checkboxes") and field["attributes"]["label"]
        for command in re.findall(r"`(regard [^`]+)`", field["attributes"].get("description", "")):
            check_names(command)
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_links_of_issue_forms_lead_to_the_project() -> None:
    source = project()["urls"]["Source"]
    links = read_yaml(ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml")["contact_links"]
    template = read(ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md")
    for url in [*(link["url"] for link in links), *re.findall(r"\]\(([^)]+)\)", template)]:
        assert url.startswith(f"{source}/")
        if "/blob/main/" in url:
            assert (ROOT / url.partition("/blob/main/")[2]).is_file()


def test_the_workflow_runs_every_python_and_both_ends_of_the_dependencies() -> None:
    job = read_yaml(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]
    matrix = job["strategy"]["matrix"]
    declared = [line.rpartition(" ")[2] for line in project()["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == declared and project()["requires-python"] == f">={declared[0]}"
    ends = {(entry["python"], entry["dependencies"]) for entry in matrix["include"]}
    assert ends == {(declared[0], "lowest"), (declared[-1], "newest")}
    assert {*matrix["dependencies"], "lowest", "newest"} == set(torch_versions())
    (command,) = (step["run"] for step in job["steps"] if "run" in step)
    assert command.split()[0] == ".ci/run" and os.access(ROOT / ".ci" / "run", os.X_OK)
