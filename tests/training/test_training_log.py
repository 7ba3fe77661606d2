"""Logs of a run: the console, metrics.jsonl and TensorBoard."""

import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.training.toy import cpu_world, toy_settings

from regard.errors import UserError
from regard.messages import format_duration
from regard.training.console import (
    LiveConsole,
    PlainConsole,
    build_console,
    format_record,
    format_validation,
)
from regard.training.events import (
    Event,
    Log,
    Note,
    StepCompleted,
    TrainingEnded,
    TrainingStarted,
    TrainRecord,
    ValidationRecord,
)  # fmt: skip
from regard.training.log import Logs, MetricsFile, TensorBoard, build_log


def record(step: int, loss: float = 0.1 + 0.2) -> TrainRecord:
    return TrainRecord(step, 0.5, loss, 1.0, 1e-3, 0.7, 100, 12345.6, 9.0, 3723.0)


VALIDATION = ValidationRecord(20, {"loss": 1.5, "bleu": 33.25}, True, 9.0, [("ein [bold]Hund", "a dog", "a cat")])


def send_events(log: Log, start: int = 0) -> None:
    events: list[Event] = [
        TrainingStarted(start, 100), record(10), VALIDATION, Note("something [else]"), TrainingEnded(),
    ]  # fmt: skip
    for event in events:
        log.log(event)


def test_plain_lines_hold_everything() -> None:
    stream = io.StringIO()
    send_events(PlainConsole(stream), start=5)
    text = stream.getvalue()
    assert "resuming after step 5" in text
    assert "step 10/100  nll 1.0000  ppl 2.72  loss 0.3000  12,346 tok/s  lr 1.00e-03  1 h 2 min left" in text
    assert "step 20  validation: nll 1.5000  bleu 33.2500  (best so far)" in text
    assert "ein [bold]Hund" in text and "a dog" in text and "a cat" in text and "something [else]" in text


def test_losses_of_training_and_validation_have_the_same_name() -> None:
    assert "loss" not in format_record(replace(record(10), loss=1.0)), "no label smoothing"
    (both,) = format_validation(ValidationRecord(3, {"loss": 4.0, "nll": 3.5}, False, 1.0))
    assert both.endswith("loss 4.0000  nll 3.5000")


def test_a_long_metric_is_short_in_the_log() -> None:
    (line,) = format_validation(ValidationRecord(3, {"loss": 4.0, "word_perplexity": 5.2454e21}, False, 1.0))
    assert line.endswith("nll 4.0000  word_perplexity 5.2e+21")


def test_an_objective_that_is_no_likelihood_has_no_perplexity() -> None:
    assert "ppl" in format_record(record(10)) and "ppl" not in format_record(replace(record(10), nll=500_000.0))


def test_control_characters_in_samples_are_replaced() -> None:
    evil = ValidationRecord(20, {}, True, 9.0, [("\x1b[2Ja\x07", "b\r\n\x9b31m", "\x00")])
    plain, live = io.StringIO(), io.StringIO()
    PlainConsole(plain).log(evil)
    LiveConsole(Console(file=live)).log(evil)
    for text in (plain.getvalue(), live.getvalue()):
        assert "␛[2Ja␇" in text and "b␍␊␡31m" in text and "␀" in text
        assert not set(text) & {"\x1b", "\x07", "\r", "\x9b", "\x00"}


class ClosedTerminal(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_closed_terminal_does_not_stop_training() -> None:
    send_events(PlainConsole(ClosedTerminal()), start=5)
    console = LiveConsole(Console(file=ClosedTerminal(), width=80))
    console.log(Note("nobody reads this"))
    console.log(TrainingEnded())


def test_a_terminal_gets_a_live_line() -> None:
    stream = io.StringIO()
    send_events(LiveConsole(Console(file=stream, force_terminal=True, width=200)))
    text = stream.getvalue()
    assert "10/100" in text and "ppl 2.72" in text and "ein [bold]Hund" in text and "something [else]" in text


def test_the_bar_moves_with_every_step_and_not_only_with_every_line() -> None:
    stream = io.StringIO()
    live = LiveConsole(Console(file=stream, force_terminal=True, width=200))
    for event in (TrainingStarted(0, 100), StepCompleted(7), TrainingEnded()):
        live.log(event)
    assert "7/100" in stream.getvalue()


def test_the_console_looks_at_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(build_console(io.StringIO()), PlainConsole)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(build_console(io.StringIO()), LiveConsole)


def test_numbers_keep_every_bit(tmp_path: Path) -> None:
    send_events(MetricsFile(tmp_path / "run" / "metrics.jsonl"))
    train, validation = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert train["loss"] == 0.1 + 0.2 != 0.3
    assert (train["kind"], train["step"], validation["kind"], validation["step"]) == ("train", 10, "validation", 20)
    assert validation["metrics"] == VALIDATION.metrics and "samples" not in validation


def test_lines_after_the_resumed_step_are_cut_away(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for step in (10, 20, 30):
        file.log(record(step))
    with path.open("a") as stream:
        stream.write('{"kind": "train", "st')  # a process was killed while writing
    file.log(TrainingStarted(20, 100))
    file.log(record(30, loss=9.0))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["step"], line["loss"] == 9.0) for line in lines] == [(10, False), (20, False), (30, True)]
    before = path.stat().st_ino
    file.log(TrainingStarted(30, 100))
    assert path.stat().st_ino == before  # nothing to cut, nothing rewritten


def test_damaged_lines_are_reported_and_kept_elsewhere(tmp_path: Path) -> None:
    path, notes = tmp_path / "metrics.jsonl", io.StringIO()
    file = MetricsFile(path, PlainConsole(notes))
    for step in (10, 20, 30, 40):
        file.log(record(step))
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = [
        lines[1].replace(b'"step": 20', b'"step": "20"'),
        lines[2].replace(b"train", b"tr\xffin"),
        lines[0].replace(b"train", b"rain"),
        b'{"kind": "train", "step": true}\n',
        b"\n",
    ]
    killed = b'{"kind": "train", "st'
    path.write_bytes(b"".join([lines[0], *damaged, lines[3], killed]))
    file.log(TrainingStarted(40, 100))
    assert path.read_bytes() == lines[0] + lines[3]
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == b"".join(damaged), "a killed line is no damage"
    assert all(f"{number}" in notes.getvalue().rpartition(":")[2] for number in range(2, 7))
    path.write_bytes(lines[0] + b"again\n")
    MetricsFile(path).log(TrainingStarted(40, 100))
    assert (tmp_path / "metrics.jsonl.damaged").read_bytes() == b"".join([*damaged, b"again\n"])


def test_undamaged_lines_make_no_other_file(tmp_path: Path) -> None:
    path, notes = tmp_path / "metrics.jsonl", io.StringIO()
    file = MetricsFile(path, PlainConsole(notes))
    for event in (record(10), VALIDATION, record(30), TrainingStarted(20, 100)):
        file.log(event)
    assert [entry.name for entry in tmp_path.iterdir()] == ["metrics.jsonl"] and notes.getvalue() == ""
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [10, 20]


def test_a_new_run_has_no_old_lines(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.log(record(10))
    file.log(TrainingStarted(0, 100))
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_several_logs_receive_the_same_events() -> None:
    streams = [io.StringIO(), io.StringIO()]
    send_events(Logs([PlainConsole(stream) for stream in streams]))
    assert streams[0].getvalue() == streams[1].getvalue() != ""
    send_events(Logs())


def test_only_rank_0_writes_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = cpu_world()
    send_events(build_log(toy_settings(), tmp_path, world))
    assert (tmp_path / "metrics.jsonl").exists() and capsys.readouterr().err
    other = type(world)(1, 2, 1, world.device, world.precision)
    send_events(build_log(toy_settings(tensorboard=True), tmp_path / "other", other))
    assert not (tmp_path / "other").exists() and not capsys.readouterr().err


def test_missing_tensorboard_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(UserError) as error:
        build_log(toy_settings(tensorboard=True), tmp_path, cpu_world())
    assert (error.value.code, error.value.where) == ("missing-package", "training.tensorboard")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("page", ["guide.md", "guide.zh.md"])
def test_tensorboard_reads_the_tags_of_the_guide(page: str, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    send_events(TensorBoard(tmp_path / "tensorboard"))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    assert set(re.findall("`((?:train|validation)/[a-z_]+)`", text)) == set(events.Tags()["scalars"])
    assert "`sample 1`" in text and events.Tags()["tensors"] == ["sample 1/text_summary"]
    (loss,), (bleu,) = events.Scalars("train/loss"), events.Scalars("validation/bleu")
    assert (loss.step, loss.value) == (10, pytest.approx(0.3)) and (bleu.step, bleu.value) == (20, 33.25)
    (sample,) = events.Tensors("sample 1/text_summary")
    assert sample.tensor_proto.string_val[0].decode() == "ein [bold]Hund\n\na dog\n\na cat"


def test_durations() -> None:
    seconds = (0, 29.4, 30.1, 89, 3569, 3600, 12_000, 172_740, 172_800, 2_309_000)
    texts = ["0 s", "29 s", "1 min", "1 min", "59 min", "1 h 0 min", "3 h 20 min", "47 h 59 min", "2 days", "27 days"]
    assert [format_duration(second) for second in seconds] == texts
