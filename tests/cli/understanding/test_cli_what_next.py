"""What is printed after training works as it stands, and the settings of all tasks are listed."""

import json
import shlex
from pathlib import Path

from tests.cli.command import regard

from regard.cli.train import what_next
from regard.run import Run


def test_the_commands_work_as_they_stand(
    classifier: Path, rater: Path, tagger: Path, answerer: Path, chooser: Path, pretrained: Path
) -> None:
    verbs = set()
    for run in (classifier, rater, tagger, answerer, chooser, pretrained):
        first, *commands = what_next(Run.open(run)).splitlines()
        assert first == "next:"
        for command in commands:
            name, verb, *arguments = shlex.split(command)
            assert name == "regard"
            if verb == "train":
                assert arguments[1] == f"start_from={run}"
                continue
            done = regard(verb, *arguments)
            assert done.status == 0, (command, done.err)
            verbs.add(verb)
    assert verbs == {"predict", "embed", "evaluate", "inspect"}


def test_settings_of_every_task_are_listed() -> None:
    rows = json.loads(regard("recipes", "--settings", "--json").out)
    owners = {(row["setting"], row["of"]): row for row in rows}
    assert owners["data.train.label", ""]["type"] == "whole number | text"
    assert owners["data.train.text", ""]["type"] == "whole number | text or list"
    assert owners["data.train.names", ""]["type"] == "table"
    assert not owners["data.train.format", ""]["type"].startswith(" ")
    assert owners["data.stride", "answering"]["default"] == "128"
    assert owners["data.next_sentence", "pretraining"]["default"] == "true"
    assert owners["text.lowercase", "pretraining, understanding"]["default"] == "true"
    assert "model.pooling" in {row["setting"] for row in rows}
